"""The settings of the experiments, read from settings.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal, get_args

Version = Literal["paper", "quick", "tiny"]

FIGURES = ("figure1", "figure2")
VERSIONS: tuple[Version, ...] = get_args(Version)

DEFAULT_SEED = 1711
# A directory for each version: runs of different lengths are never mixed.
DEFAULT_OUT: dict[Version, str] = {
    "paper": "bouncy-reproduction",
    "quick": "bouncy-reproduction-quick",
    "tiny": "bouncy-reproduction-tiny",
}


@dataclass(frozen=True)
class Settings:
    """Settings of one figure of the paper.

    Attributes
    ----------
    figure, version : str
        Which figure, and which version of it.
    d : int
        Number of sites.
    sigma_M, sigma_r : tuple of float
        Scales of the random models, A_ij ~ N(0, sigma_M^2), M = (A + A')/2 with zero diagonal, r_i ~ N(0, sigma_r^2);
        every pair of them is a cell. The standard deviation of a coupling M_ij is sigma_M / sqrt(2).
    runs : int
        Runs of every cell, each with a new random model.
    seconds : float
        CPU seconds for each sampler in each run, pilot and warm-up included.
    warmup : float
        Fraction of the CPU seconds after the pilot that is discarded.
    travel_time : float
        Travel time of HMC in units of pi.
    pairs : bool
        Whether the error of E[s_i s_j] counts, beside that of E[s_i].
    """

    figure: str
    version: str
    d: int
    sigma_M: tuple[float, ...]
    sigma_r: tuple[float, ...]
    runs: int
    seconds: float
    warmup: float
    travel_time: float
    pairs: bool

    @property
    def cells(self) -> list[tuple[float, float]]:
        """All pairs of a sigma_M and a sigma_r."""
        return [(sigma_M, sigma_r) for sigma_M in self.sigma_M for sigma_r in self.sigma_r]


@dataclass(frozen=True)
class ViewSettings:
    """Settings of the views of one model.

    Attributes
    ----------
    d : int
        Number of sites.
    sigma_M, sigma_r : float
        Scales of the random model, as in `Settings`.
    travel_time : float
        Travel time of HMC in units of pi.
    lag_sweeps : float
        A lag is the CPU time in which the quickest sampler of an edition makes this many sweeps.
    lags, states : int
        Lags of the autocorrelation, and states, one lag apart, that it is estimated from.
    flips : int
        Flips whose holding times are kept.
    trace : int
        States in the trace of the magnetisation.
    """

    d: int
    sigma_M: float
    sigma_r: float
    travel_time: float
    lag_sweeps: float
    lags: int
    states: int
    flips: int
    trace: int


def load(figure: str, version: Version) -> Settings:
    """Return the settings of a figure.

    Examples
    --------
    >>> from bouncy.experiments.settings import load
    >>> load("figure2", "paper").sigma_M
    (0.02, 0.05, 0.1, 0.2, 0.5)
    """
    if figure not in FIGURES:
        raise ValueError(f"figure is {figure!r}; expected one of: {', '.join(FIGURES)}")
    values = _read(figure, version)
    for name in ("sigma_M", "sigma_r"):
        values[name] = tuple(values[name])
    return Settings(figure=figure, version=version, **values)


def load_views(version: Version) -> ViewSettings:
    """Return the settings of the views."""
    return ViewSettings(**_read("views", version))


def _read(section: str, version: str) -> dict[str, Any]:
    """Return the values that all versions of a section share, updated by those of one version."""
    if version not in VERSIONS:
        raise ValueError(f"version is {version!r}; expected one of: {', '.join(VERSIONS)}")
    text = resources.files(__package__).joinpath("settings.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)[section]
    shared = {name: value for name, value in table.items() if name not in VERSIONS}
    return {**shared, **table[version]}
