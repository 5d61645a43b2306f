"""Statistical tests of samplers with known error rates.

Each test returns an `Outcome`; `Outcome.check()` raises if the test failed. The chance of a false alarm is `alpha` per
call, all coordinates together (Bonferroni). The smallest error that the test would see with probability `POWER` is
part of the outcome, and `detect=` turns it into a requirement: a test too weak to see an error of that size raises
`UnderpoweredTest` instead of passing for the wrong reason.

All scores are on one scale: `z` is the normal score of the two-sided p-value, so that |z| = 5 is equally surprising in
every test.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

Array = NDArray[np.float64]

ALPHA = 1e-6
POWER = 0.999

# Below this relative size a difference is rounding, not bias.
_ROUNDING = 1e-12
# Tail probabilities smaller than this are replaced by their asymptotic logarithm.
_SMALLEST_P = 1e-290


class UnderpoweredTest(AssertionError):
    """The test cannot detect an error of the requested size."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a statistical test.

    Attributes
    ----------
    test : name of the test.
    z : normal score of the two-sided p-value at the worst coordinate, signed where there is a sign.
    threshold : the test fails if |z| exceeds it.
    index : the worst coordinate.
    observed, expected : the two numbers compared there.
    detectable : the smallest error that would be seen with probability `POWER`, at the least precise coordinate.
    """

    test: str
    z: float
    threshold: float
    index: tuple[int, ...]
    observed: float
    expected: float
    detectable: float

    @property
    def passed(self) -> bool:
        """Whether |z| <= threshold; a z that is nan has not passed."""
        return abs(self.z) <= self.threshold

    def check(self) -> Outcome:
        """Return the outcome itself if the test passed and raise `AssertionError` if it failed."""
        if not self.passed:
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        where = ", ".join(map(str, self.index))
        return (
            f"{self.test} {'passed' if self.passed else 'failed'}: at ({where}) observed {self.observed:.9g}, "
            f"expected {self.expected:.9g}, z = {self.z:.3f}, threshold {self.threshold:.3f} "
            f"(errors of {self.detectable:.3g} are seen with probability {POWER})"
        )


# --- means ------------------------------------------------------------------------------------------------------------


def z_test(
    samples: ArrayLike,
    expected: ArrayLike,
    standard_error: ArrayLike | None = None,
    *,
    degrees_of_freedom: float | None = None,
    alpha: float = ALPHA,
    detect: ArrayLike | None = None,
    name: str = "z-test",
) -> Outcome:
    """Compare means with their exact values.

    Without a standard error the rows of `samples` are independent replicates, and each column's mean is compared by
    Student's t, which keeps the error rate right for a dozen chains as well as for 10^5 replicates. The columns should
    be near enough to normal for the mean of that many rows to be normal in its tails.

    A bias b is seen if |b| / standard_error >= t sqrt(chi2 / n) + q, with t the threshold and chi2 and q the quantiles
    that the variance and the mean exceed with probability (1 - POWER) / 2 each.

    Parameters
    ----------
    samples : shape (replicates, ...), at least 2 replicates; or, with a standard error, estimates of shape (...).
    expected : shape (...), or a number.
    standard_error : of the estimates, shape (...) or a number, not negative.
    degrees_of_freedom : of the standard error given; None means that it is known exactly.
    alpha : false-alarm rate over all columns.
    detect : size of a bias, a number or shape (...), that must be visible.

    Notes
    -----
    Differences below 1e-12 of the largest value in a column count as zero. A column without variance has z = 0 if it
    equals the expected value and an infinite z otherwise.
    """
    _require_probability("alpha", alpha)
    means = _replicate_means(samples) if standard_error is None else _given_means(samples, standard_error)
    if standard_error is None and degrees_of_freedom is not None:
        raise ValueError("degrees_of_freedom belongs to a given standard_error; with replicates it is their number - 1")
    degrees = means.degrees if degrees_of_freedom is None else _positive("degrees_of_freedom", degrees_of_freedom)
    target = _like("expected", expected, means.value.shape)
    alpha_each = alpha / means.value.size
    detectable = means.standard_error * _visible_scores(alpha_each, degrees)
    z = _normal_scores(_t_ratio(means, target), degrees)
    worst = np.unravel_index(int(np.argmax(np.abs(z))), z.shape)
    outcome = Outcome(
        test=name,
        z=float(z[worst]),
        threshold=_threshold(alpha_each),
        index=tuple(int(i) for i in worst),
        observed=float(means.value[worst]),
        expected=float(target[worst]),
        detectable=float(detectable.max()),
    )
    # Report a failure before a lack of power: it names the error, and too much noise may be part of the error.
    if detect is not None and outcome.passed:
        _require_power(name, detectable, _like("detect", detect, means.value.shape))
    return outcome


class _Means(NamedTuple):
    value: Array
    standard_error: Array
    scale: Array  # the largest magnitude that rounding errors can come from
    degrees: float


def _replicate_means(samples: ArrayLike) -> _Means:
    x = np.asarray(samples, dtype=np.float64)
    if x.ndim == 0 or x.shape[0] < 2 or x.size == 0:
        raise ValueError(f"samples have shape {x.shape}; expected (replicates, ...) with at least 2 replicates")
    n = x.shape[0]
    # Bad values must fail the test as nan, not as a warning.
    with np.errstate(invalid="ignore", over="ignore"):
        # Deviations from the first row, so that a constant column has exactly no variance.
        deviation = x - x[0]
        mean = x[0] + deviation.mean(axis=0)
        error = deviation.std(axis=0, ddof=1) / math.sqrt(n)
    return _Means(np.asarray(mean), np.asarray(error), np.abs(x).max(axis=0), n - 1.0)


def _given_means(estimates: ArrayLike, standard_error: ArrayLike) -> _Means:
    value = np.asarray(estimates, dtype=np.float64)
    if value.size == 0:
        raise ValueError(f"estimates have shape {value.shape}; expected at least one number")
    error = _like("standard_error", standard_error, value.shape)
    if np.any(error < 0):
        raise ValueError(f"standard_error has {error.min()}; expected numbers >= 0")
    return _Means(value, error, np.abs(value), math.inf)


def _t_ratio(means: _Means, target: Array) -> Array:
    """Return (mean - expected) / standard error, with 0/0 = 0 and differences of the size of rounding set to 0."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        gap = means.value - target
        rounding = _ROUNDING * np.maximum(means.scale, np.abs(target))
        gap = np.where(np.isfinite(gap) & (np.abs(gap) <= rounding), 0.0, gap)
        return np.where(gap == 0, 0.0, gap / means.standard_error)


def _normal_scores(t: Array, degrees: float) -> Array:
    """Return the normal score with the same tail probability as t under Student's law."""
    if math.isinf(degrees):
        return t
    p = 2 * stats.t.sf(np.abs(t), degrees)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        size = _score(np.log(p))
        # D. L. Wallace, Ann. Math. Stat. 30, 1121 (1959), where p itself underflows.
        far = (8 * degrees + 1) / (8 * degrees + 3) * np.sqrt(degrees * np.log1p(t**2 / degrees))
    return np.copysign(np.where(p < _SMALLEST_P, far, size), t)


def _visible_scores(alpha_each: float, degrees: float) -> float:
    """Return the bias in standard errors that a two-sided t-test sees with probability at least `POWER`."""
    miss = (1 - POWER) / 2
    inflation = 1.0 if math.isinf(degrees) else math.sqrt(stats.chi2.isf(miss, degrees) / degrees)
    return float(stats.t.isf(alpha_each / 2, degrees) * inflation - special.ndtri(miss))


# --- frequencies of states --------------------------------------------------------------------------------------------


def chi_square_test(
    counts: ArrayLike,
    probabilities: ArrayLike,
    *,
    alpha: float = ALPHA,
    detect: float | None = None,
    smallest_expected: float = 5.0,
    name: str = "chi-square test",
) -> Outcome:
    """Compare counts of independent draws with the probabilities of their cells by Pearson's chi-square.

    Cells are taken from the least probable upwards and joined until each group expects at least `smallest_expected`
    draws. A draw in a cell of probability zero fails the test with an infinite z.

    `detect` and `detectable` are total variations: for every shift of size e between groups, in any direction, the
    noncentrality n sum(shift^2 / p) is at least 4 n e^2. Shifts inside a group are not seen.

    Parameters
    ----------
    counts : number of draws per cell, any shape.
    probabilities : of the same shape, summing to 1.
    alpha : false-alarm rate.
    detect : total variation that must be visible.
    smallest_expected : the law of the statistic is a chi-square only for large cells. If *all* groups expect this
        number of draws, false alarms at alpha = 1e-6 are more frequent than alpha by a factor of up to 70 for 5, 20
        for 10, 5 for 50 and 2 for 200 (at alpha = 0.01: 1.6 for 5).
    """
    _require_probability("alpha", alpha)
    _positive("smallest_expected", smallest_expected)
    draws, p = _counts_and_probabilities(counts, probabilities)
    n = draws.sum()
    groups = _pool(n * p, smallest_expected)
    group_draws = np.array([draws.flat[group].sum() for group in groups])
    group_p = np.array([p.flat[group].sum() for group in groups])
    degrees = len(groups) - 1
    detectable = _visible_total_variation(n, degrees, alpha)
    if detect is not None:
        _require_power(name, np.array(detectable), np.array(float(detect)))
    impossible = np.flatnonzero((p == 0) & (draws > 0))
    contribution = (group_draws - n * group_p) ** 2 / (n * group_p)
    worst = int(np.argmax(contribution))
    z, cell = _chi_square_score(float(contribution.sum()), degrees), int(groups[worst][-1])
    observed, expected = group_draws[worst] / n, group_p[worst]
    if impossible.size:
        z, cell = math.inf, int(impossible[0])
        observed, expected = draws.flat[cell] / n, 0.0
    return Outcome(
        test=name,
        z=z,
        threshold=_threshold(alpha),
        index=tuple(int(i) for i in np.unravel_index(cell, p.shape)),
        observed=float(observed),
        expected=float(expected),
        detectable=detectable,
    )


def _counts_and_probabilities(counts: ArrayLike, probabilities: ArrayLike) -> tuple[Array, Array]:
    draws = np.asarray(counts, dtype=np.float64)
    p = np.asarray(probabilities, dtype=np.float64)
    if draws.shape != p.shape or draws.ndim == 0:
        raise ValueError(f"counts have shape {draws.shape} and probabilities {p.shape}; expected one shape for both")
    if not np.all(np.isfinite(draws)) or np.any(draws < 0) or np.any(draws != np.round(draws)) or draws.sum() == 0:
        raise ValueError("counts must be integers >= 0, not all zero: pass how often each cell was drawn")
    if not np.all(p >= 0) or not abs(p.sum() - 1) <= 1e-9:
        raise ValueError(f"probabilities sum to {p.sum():.12g}, the least is {p.min():.6g}; expected >= 0 and sum 1")
    return draws, p


def _pool(expected: Array, smallest: float) -> list[NDArray[np.int64]]:
    """Return groups of cells that expect at least `smallest` draws each, joining the least probable first.

    Depends on the expectations alone, never on the counts; cells that expect nothing belong to no group.
    """
    flat = expected.ravel()
    order = np.argsort(flat, kind="stable")
    order = order[flat[order] > 0]
    ends = []
    filled = 0.0
    for position, cell in enumerate(order.tolist()):
        filled += flat[cell]
        if filled >= smallest:
            ends.append(position + 1)
            filled = 0.0
    # Cells left over at the top join the last group.
    return np.split(order, ends[:-1])


def _visible_total_variation(n: float, degrees: int, alpha: float) -> float:
    if degrees == 0:
        return math.inf
    critical = stats.chi2.isf(alpha, degrees)
    noncentrality = special.chndtrinc(critical, degrees, 1 - POWER)
    return math.sqrt(float(noncentrality) / (4 * n))


def _chi_square_score(statistic: float, degrees: int) -> float:
    if degrees == 0:
        return 0.0
    p = float(stats.chi2.sf(statistic, degrees))
    if p > _SMALLEST_P:
        return float(_score(math.log(p)))
    # First convergent of the continued fraction of the incomplete gamma function.
    a, x = degrees / 2, statistic / 2
    return float(_score(a * math.log(x) - x - math.log(x - a + 1) - math.lgamma(a)))


# --- continuous laws --------------------------------------------------------------------------------------------------


def distribution_test(
    samples: ArrayLike,
    cdf: Callable[[Array], ArrayLike],
    *,
    alpha: float = ALPHA,
    detect: float | None = None,
    name: str = "Kolmogorov-Smirnov test",
) -> Outcome:
    """Compare independent draws with a continuous distribution function by Kolmogorov and Smirnov's test.

    `detect` and `detectable` are distances sup |F - cdf|, by the Dvoretzky-Kiefer-Wolfowitz inequality: at most
    sqrt(log(2 / alpha) / 2n) + sqrt(log(2 / (1 - POWER)) / 2n).

    Parameters
    ----------
    samples : shape (n,), or (n, k) for k columns with the same law. Columns may depend on each other, rows may not.
    cdf : maps an array of values to probabilities.
    alpha : false-alarm rate over all columns.
    detect : distance that must be visible.
    """
    _require_probability("alpha", alpha)
    x = np.asarray(samples, dtype=np.float64)
    if x.ndim not in (1, 2) or x.size == 0:
        raise ValueError(f"samples have shape {x.shape}; expected (n,) or (n, k)")
    columns = np.sort(x.reshape(x.shape[0], -1), axis=0)
    n, k = columns.shape
    detectable = (math.sqrt(math.log(2 * k / alpha)) + math.sqrt(math.log(2 / (1 - POWER)))) / math.sqrt(2 * n)
    if detect is not None:
        _require_power(name, np.array(detectable), np.array(float(detect)))
    law = np.asarray(cdf(columns), dtype=np.float64)
    if law.shape != columns.shape:
        raise ValueError(f"cdf returned shape {law.shape} for values of shape {columns.shape}; expected the same shape")
    # The empirical distribution just before and at each draw.
    steps = np.stack([np.arange(n), np.arange(1, n + 1)])[:, :, None] / n
    distance = np.abs(steps - law)
    side, row, column = np.unravel_index(int(np.argmax(distance)), distance.shape)
    return Outcome(
        test=name,
        z=_kolmogorov_score(float(distance[side, row, column]), n),
        threshold=_threshold(alpha / k),
        index=(int(column),) if x.ndim == 2 else (),
        observed=float(steps[side, row, 0]),
        expected=float(law[row, column]),
        detectable=detectable,
    )


def _kolmogorov_score(distance: float, n: int) -> float:
    if math.isnan(distance):
        return math.nan
    p = float(stats.kstwo.sf(distance, n))
    return float(_score(math.log(p) if p > _SMALLEST_P else math.log(2) - 2 * n * distance**2))


# --- intervals --------------------------------------------------------------------------------------------------------


def coverage_test(
    covered: ArrayLike,
    nominal: float,
    low: float,
    high: float,
    *,
    alpha: float = ALPHA,
    detect: float | None = None,
    name: str = "coverage test",
) -> Outcome:
    """Require that intervals of nominal coverage cover the truth between `low` and `high` of the time.

    The observed frequency must lie in [low, high]. The false-alarm rate is the binomial probability that intervals of
    exactly nominal coverage leave that band; if it exceeds `alpha` there are too few replications and the test raises
    `UnderpoweredTest`. Columns of one replication may depend on each other: their number is divided by the design
    effect, the variance of the row means over what it would be if they were independent.

    `detect` and `detectable` are departures of the true coverage from `nominal`, on either side.

    Parameters
    ----------
    covered : booleans, shape (replications,) or (replications, k).
    nominal, low, high : 0 < low < nominal < high <= 1.
    """
    _require_probability("alpha", alpha)
    if not 0 < low < nominal < high <= 1:
        raise ValueError(f"got low {low}, nominal {nominal}, high {high}; expected 0 < low < nominal < high <= 1")
    hits = np.asarray(covered)
    if hits.dtype != np.bool_ or hits.ndim not in (1, 2) or hits.shape[0] < 2 or hits.size == 0:
        raise ValueError(
            f"covered has shape {hits.shape} and type {hits.dtype}; expected booleans of shape (replications,) or "
            "(replications, k), at least 2 replications"
        )
    rate = float(hits.mean())
    n = _independent_count(hits.reshape(hits.shape[0], -1), nominal)
    # Counts inside the band; the slack keeps 0.93 * 10000 from being rounded up to the next count.
    least, most = math.ceil(low * n - 1e-9), math.floor(high * n + 1e-9)
    false_alarm = float(special.bdtr(least - 1, n, nominal) + special.bdtrc(most, n, nominal))
    if false_alarm > alpha:
        raise UnderpoweredTest(
            f"{name}: {n} independent intervals of coverage {nominal} leave [{low}, {high}] with probability "
            f"{false_alarm:.3g}, allowed {alpha:.3g}; use more replications, a wider band or a larger alpha"
        )
    detectable = nominal - float(special.bdtri(least - 1, n, POWER))
    if most < n:
        detectable = max(detectable, float(special.bdtri(most, n, 1 - POWER)) - nominal)
    if detect is not None:
        _require_power(name, np.array(detectable), np.array(float(detect)))
    error = math.sqrt(nominal * (1 - nominal) / n)
    return Outcome(
        test=name,
        z=(rate - nominal) / error,
        threshold=(high - nominal if rate > nominal else nominal - low) / error,
        index=(),
        observed=rate,
        expected=nominal,
        detectable=detectable,
    )


def _independent_count(hits: NDArray[np.bool_], nominal: float) -> int:
    """Return the number of independent intervals with the same precision as `hits`, shape (replications, k)."""
    replications, k = hits.shape
    if k == 1:
        return int(replications)
    design_effect = float(hits.mean(axis=1).var(ddof=1)) * k / (nominal * (1 - nominal))
    return max(1, int(replications * k / max(1.0, design_effect)))


# --- shared -----------------------------------------------------------------------------------------------------------


def _score(log_p: Array | float) -> Array:
    """Return the normal score z >= 0 of a two-sided p-value given by its logarithm."""
    scores: Array = np.maximum(0.0, -special.ndtri_exp(np.asarray(log_p) - math.log(2)))
    return scores


def _threshold(alpha_each: float) -> float:
    return -float(special.ndtri(alpha_each / 2))


def _require_power(name: str, detectable: Array, detect: Array) -> None:
    if np.all(detectable <= detect):
        return
    with np.errstate(divide="ignore", invalid="ignore"):
        worst = np.unravel_index(int(np.argmax(detectable / detect)), detectable.shape)
    raise UnderpoweredTest(
        f"{name}: an error of {detect[worst]:.3g} at {tuple(int(i) for i in worst)} would not be seen, the smallest "
        f"that would be is {detectable[worst]:.3g}; use more replicates or ask for less"
    )


def _like(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Array:
    array = np.asarray(value, dtype=np.float64)
    if array.shape not in ((), shape):
        raise ValueError(f"{name} has shape {array.shape}; expected {shape} or a number")
    return np.broadcast_to(array, shape)


def _require_probability(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} is {value}; expected a number between 0 and 1")


def _positive(name: str, value: float) -> float:
    if not value > 0:
        raise ValueError(f"{name} is {value}; expected a number > 0")
    return float(value)
