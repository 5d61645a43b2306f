"""Autocorrelation of a scalar along the draws."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri

from bouncy._validation import check_count
from bouncy.plots.scalars import scalar_of
from bouncy.plots.style import BLACK, LIGHT, axes_or_new, label_and_colour
from bouncy.results.ess import effective_sample_size, rank_normalise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bouncy.results.run import Run

Array = NDArray[np.float64]

# Lags that are drawn by default: so many autocorrelation times, but at least the second number.
_TIMES = 6
_FEWEST = 20
# Most lags that are drawn as stems; more are drawn as a line.
_STEMS = 60


def plot_autocorrelation(
    run: Run,
    what: Hashable = "log_prob",
    ax: Axes | None = None,
    max_lag: int | None = None,
    *,
    label: str | None = None,
    color: str | None = None,
) -> Axes:
    """Draw the autocorrelation of a number against the lag in draws, over all chains, with what chance allows.

    The mean and the variance are those of all chains together: chains that are stuck in different places stay
    correlated with themselves at every lag. The grey band is where 95 % of the estimates at a lag lie if the chain
    forgets everything before that lag; it widens, because estimates at neighbouring lags depend on each other
    (Bartlett 1946). The legend has the effective sample size, which is that in `run.diagnostics`. Call it again on the
    same axes to add another run.

    Parameters
    ----------
    run : Run
    what : hashable
        "log_prob"; of spins, "magnetisation" or "|magnetisation|"; or the label or place of a site.
    ax : Axes, optional
        Where to draw; a new figure otherwise.
    max_lag : int, optional
        Last lag, in draws; six autocorrelation times otherwise, up to half of a chain.
    label, color : str, optional
        Name in the legend, and colour; those of the sampler otherwise.
    """
    name, values, spacing = scalar_of(run, what)
    if np.ptp(values) == 0.0:
        raise ValueError(f"{name} is {values[0, 0]:g} in all draws of all chains; expected one that changes")
    size = float(effective_sample_size(rank_normalise(values)[:, :, None])[0])
    lags = _lags(values, size, None if max_lag is None else check_count("max_lag", max_lag) // spacing)
    rho = autocorrelation(values)[: lags + 1]
    half_width = chance(rho, *values.shape)
    ax = axes_or_new(ax)
    x, (label, colour) = spacing * np.arange(lags + 1), label_and_colour(run, label, color)
    ax.fill_between(x[1:], -half_width[1:], half_width[1:], color=LIGHT, alpha=0.6, linewidth=0, zorder=0)
    ax.axhline(0.0, color=BLACK, linewidth=0.8, zorder=1)
    if lags <= _STEMS:
        ax.vlines(x, 0.0, rho, color=colour, linewidth=1.2, zorder=2)
    label = f"{label}: {size:.0f} effective of {values.size} draws"
    marker = "o" if lags <= _STEMS else ""
    ax.plot(x, rho, linestyle="" if marker else "-", marker=marker, markersize=3.5, color=colour, zorder=3, label=label)
    ax.set(xlabel="lag in draws", ylabel=f"autocorrelation of {name}", xlim=(0.0 - 0.01 * x[-1], x[-1]))
    ax.locator_params(axis="x", integer=True)
    ax.set_ylim(min(-0.1, ax.get_ylim()[0]), 1.05)
    ax.legend()
    return ax


def autocorrelation(values: Array) -> Array:
    """Return the autocorrelation of a trace of shape (chain, draw) at the lags 0 to draw - 1, over all chains.

    The mean of (x_t - m) (x_{t+k} - m) / v over t and over chains, with the mean m and the variance v of all of them.
    """
    n = values.shape[1]
    size = next_fast_len(2 * n, real=True)
    spectrum = rfft(values - values.mean(), size, axis=1)
    covariance = irfft((np.abs(spectrum) ** 2).mean(axis=0), size)[:n] / np.arange(n, 0, -1)
    correlation: Array = covariance / covariance[0]
    return correlation


def chance(rho: Array, chains: int, draws: int) -> Array:
    """Return the half width of the range of 95 % around 0 at each lag, if there is no correlation from there on.

    Bartlett's variance (1 + 2 sum_{j<k} rho_j^2) / N at lag k, over N pairs of draws, but no more than 1; 0 at lag 0,
    where the autocorrelation is 1.
    """
    before = np.concatenate([[0.0, 0.0], np.cumsum(rho[1:-1] ** 2)])[: rho.size]
    pairs = chains * (draws - np.arange(rho.size))
    half_width: Array = np.minimum(ndtri(0.975) * np.sqrt((1.0 + 2.0 * before) / pairs), 1.0)
    half_width[0] = 0.0
    return half_width


def _lags(values: Array, size: float, asked: int | None) -> int:
    """Return the number of lags to draw: those asked for, or some autocorrelation times, but no more than there are."""
    n = int(values.shape[1])
    if asked is not None:
        return min(max(asked, 1), n - 1)
    return min(max(_FEWEST, int(np.ceil(_TIMES * values.size / size))), max(n // 2, 1))
