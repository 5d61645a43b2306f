"""Three views of single chains on one model: autocorrelation of log p, holding times, trace of the magnetisation."""

from __future__ import annotations

import io
import json
import time
import zipfile
from dataclasses import dataclass
from math import pi
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from bouncy.experiments.contenders import CONTENDERS
from bouncy.experiments.ledger import origin_of, replace_file
from bouncy.experiments.ours import OurWalker
from bouncy.experiments.pool import collect, progress_bar, single_threaded_pool
from bouncy.experiments.published import published
from bouncy.experiments.settings import ViewSettings
from bouncy.targets.mrf import MRF

Array = NDArray[np.float64]

# Edition and sampler of each chain: one per sampler, however many of its estimators are compared. A tempered chain is
# none: it passes from rung to rung, and many spins flip at once.
CHAINS = tuple(dict.fromkeys((c.edition, c.sampler) for c in CONTENDERS if c.sampler != "tempered"))

# CPU seconds in which the pace of a chain is taken, and how often; the shortest is the least disturbed one.
_PACE_SECONDS = 0.02
_PACE_REPEATS = 5
# Discarded states, as a fraction of those that are kept.
_WARMUP = 0.1
# Attempts per requested flip after which a chain counts as stuck.
_PATIENCE = 1000

FILE = "views.npz"
_FIELDS = ("lag_seconds", "autocorrelation", "holding_times", "magnetisation", "magnetisation_seconds")
# Far more than the views of any settings take.
_MOST_BYTES = 1 << 28


@dataclass(frozen=True, eq=False)
class View:
    """Views of one chain.

    Attributes
    ----------
    edition, sampler : str
    lag_seconds : float
        CPU seconds from one state to the next, the same for all chains of an edition.
    autocorrelation : (lags,) array
        Of log p(s), at 0, 1, ..., lags - 1; NaN if log p never changed.
    holding_times : (n,) array
        Times between successive flips of any spin, in sweeps (the time in which d attempted flips are expected).
    magnetisation, magnetisation_seconds : (k,) arrays
        Mean spin of successive states, and the CPU seconds at which they were reached.
    """

    edition: str
    sampler: str
    lag_seconds: float
    autocorrelation: Array
    holding_times: Array
    magnetisation: Array
    magnetisation_seconds: Array


@dataclass(frozen=True, eq=False)
class Views:
    """The chains of `CHAINS` on one random model, drawn with `seed`."""

    d: int
    sigma_M: float
    sigma_r: float
    seed: int
    curves: list[View]


def measure_views(settings: ViewSettings, seed: int, workers: int | None = None, progress: bool | None = None) -> Views:
    """Run the chains of `CHAINS` on one random model and return their views.

    The lag of an edition is the CPU time in which its quickest sampler makes `lag_sweeps` sweeps. The CPU time per
    sweep of each sampler is measured first, and converts the lag into time of its own clock.
    """
    numbers = range(len(CHAINS))
    with single_threaded_pool(workers) as pool:
        with progress_bar("views, pace", "chain", progress) as bar:
            paces = dict(collect(pool, take_pace, [(k, settings, seed) for k in numbers], bar))
        lags = [_lag(CHAINS[k][0], paces, settings) for k in numbers]
        calls = [(k, settings, seed, lags[k], paces[k]) for k in numbers]
        with progress_bar("views", "chain", progress) as bar:
            views = dict(collect(pool, take_view, calls, bar))
    return Views(settings.d, settings.sigma_M, settings.sigma_r, seed, [views[k] for k in numbers])


def _lag(edition: str, paces: dict[int, float], settings: ViewSettings) -> float:
    return settings.lag_sweeps * min(pace for k, pace in paces.items() if CHAINS[k][0] == edition)


def take_pace(k: int, settings: ViewSettings, seed: int) -> tuple[int, float]:
    """Return the index of a chain and its CPU seconds per sweep."""
    walker = _new_walker(k, settings, seed)
    walker.compile()
    sweeps = 1
    while (seconds := _time(walker, sweeps)) < _PACE_SECONDS:
        sweeps *= 2
    return k, min(seconds, *(_time(walker, sweeps) for _ in range(_PACE_REPEATS))) / sweeps


def _time(walker: _Walker, sweeps: int) -> float:
    begin = time.process_time()
    walker.advance(sweeps)
    return time.process_time() - begin


def take_view(k: int, settings: ViewSettings, seed: int, lag_seconds: float, sweep_seconds: float) -> tuple[int, View]:
    """Return the index of a chain and its view."""
    walker = _new_walker(k, settings, seed)
    discarded = round(_WARMUP * settings.states)
    log_prob, magnetisation = walker.trace(discarded + settings.states, lag_seconds / sweep_seconds)
    trace = magnetisation[discarded:][: settings.trace]
    edition, sampler = CHAINS[k]
    return k, View(
        edition=edition,
        sampler=sampler,
        lag_seconds=lag_seconds,
        autocorrelation=autocorrelation(log_prob[discarded:], settings.lags),
        holding_times=walker.holding_times(settings.flips, _PATIENCE * settings.flips),
        magnetisation=trace,
        magnetisation_seconds=lag_seconds * np.arange(1.0, trace.size + 1.0),
    )


def autocorrelation(x: Array, lags: int) -> Array:
    """Return the autocorrelation of a series at 0, 1, ..., lags - 1, shape (lags,); NaN if it is constant."""
    n = x.size
    size = next_fast_len(2 * n, real=True)
    covariance = irfft(np.abs(rfft(x - x.mean(), size)) ** 2, size)[:lags] / n
    if np.ptp(x) == 0.0:
        return np.full(lags, np.nan)
    result: Array = covariance / covariance[0]
    return result


class _Walker(Protocol):
    """A chain whose states are followed."""

    def compile(self) -> None:
        """Compile everything, or load it from the cache."""

    def advance(self, sweeps: int) -> None:
        """Run for some sweeps."""

    def trace(self, n: int, sweeps: float) -> tuple[Array, Array]:
        """Return log p(s) and the magnetisation, (n,) each, of states that are some sweeps apart."""

    def holding_times(self, n: int, attempts: int) -> Array:
        """Return the times between n successive flips, in sweeps, shape (n - 1,), or fewer after so many attempts."""


def _new_walker(k: int, settings: ViewSettings, seed: int) -> _Walker:
    """Return a chain of `CHAINS` on the model of the views."""
    model_seed, *seeds = np.random.SeedSequence(seed).spawn(1 + len(CHAINS))
    target = MRF.random(settings.d, settings.sigma_M, settings.sigma_r, seed=model_seed)
    edition, sampler = CHAINS[k]
    walker = _PublishedWalker if edition == "published" else OurWalker
    return walker(sampler, target, settings.travel_time, seeds[k])


class _PublishedWalker:
    """A published sampler. It moves from one attempted flip to the next, d of which are a sweep on average."""

    def __init__(self, name: str, target: MRF, travel_time: float, seed: np.random.SeedSequence) -> None:
        self._target = target
        self._chain = published(name, target, travel_time=travel_time * pi, seed=seed, pairs=False)

    def compile(self) -> None:
        self._chain.compile()

    @property
    def hits(self) -> int:
        """Attempted flips."""
        return self._chain.hits

    def advance(self, sweeps: int) -> None:
        self._chain.advance(sweeps * self._target.d)

    def trace(self, n: int, sweeps: float) -> tuple[Array, Array]:
        states = np.empty((n, self._target.d), np.int8)
        # Rounded sums, not rounded steps, keep the mean distance of the states.
        stops = np.rint(sweeps * self._target.d * np.arange(n + 1)).astype(np.int64)
        for k, hits in enumerate(np.diff(stops)):
            self._chain.advance(int(hits))
            states[k] = self._chain.s
        return self._target.log_prob(states), states.mean(axis=1)

    def holding_times(self, n: int, attempts: int) -> Array:
        times: list[float] = []
        for _ in range(attempts):
            before = self._chain.flips
            self._chain.advance(1)
            if self._chain.flips > before:
                times.append(self._chain.time)
            if len(times) == n:
                break
        return np.diff(times) / self._chain.sweep_time


# --- views on disk ----------------------------------------------------------------------------------------------------


def keep_views(
    directory: Path, settings: ViewSettings, seed: int, workers: int | None = None, progress: bool | None = None
) -> Views:
    """Return the views in `<directory>/views.npz`, or measure them and keep them there.

    Views of other settings, another seed, version or machine are measured again, and so are those in a damaged file.
    """
    path = directory / FILE
    views = read_views(path, settings, seed)
    if views is None:
        views = measure_views(settings, seed, workers, progress)
        write_views(path, views, settings)
    return views


def write_views(path: Path, views: Views, settings: ViewSettings) -> None:
    """Write views and their origin into a file; the directory is created if missing."""
    arrays: dict[str, Any] = {"origin": np.array(json.dumps(origin_of(settings, views.seed)))}
    for view in views.curves:
        for field in _FIELDS:
            arrays[_key(view.edition, view.sampler, field)] = np.asarray(getattr(view, field))
    content = io.BytesIO()
    np.savez(content, **arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content.getvalue())


def read_views(path: Path, settings: ViewSettings, seed: int) -> Views | None:
    """Return the views in a file, or None if it is missing, damaged or of another origin."""
    if not path.exists():
        return None
    try:
        arrays = _load(path)
        if json.loads(str(arrays["origin"])) != origin_of(settings, seed):
            return None
        curves = [_view(edition, sampler, arrays) for edition, sampler in CHAINS]
    except Exception:  # changed bytes can raise anything, and the remedy is always to measure again
        return None
    return Views(settings.d, settings.sigma_M, settings.sigma_r, seed, curves)


def _load(path: Path) -> dict[str, Any]:
    """Return all arrays of a file. Their checksums are verified; nothing in the file is executed."""
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > _MOST_BYTES:
        raise ValueError(f"{path} holds {size} bytes; expected at most {_MOST_BYTES}")
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def _view(edition: str, sampler: str, arrays: dict[str, Any]) -> View:
    lag_seconds, *others = (arrays[_key(edition, sampler, field)] for field in _FIELDS)
    return View(edition, sampler, float(lag_seconds), *others)


def _key(edition: str, sampler: str, field: str) -> str:
    return f"{edition} {sampler} {field}"
