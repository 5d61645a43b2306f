"""`check_target` for densities: do log p, its gradient, its edges and walls, and what is said of it agree?"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._labels import short_label
from bouncy.piecewise.targets.density import Density
from bouncy.targets.contract import TargetError, shown

Array = NDArray[np.float64]

# Points of a ray at which log p is looked at, and how often the most suspicious stretch is cut into as many again.
_POINTS, _CUTS = 65, 7
# Two slopes of log p, left and right of a point, that differ by more than this share are a kink.
_KINK = 1e-3
# Lengths of two coordinates that differ by more than this factor are hard to see beside each other.
_FAR_APART = 1e3
# Rise of -log p that a particle does not make.
_OUT_OF_REACH = 10.0
# Differences are taken over this share of a natural length.
_STEP = 1e-5


class BadScaleWarning(UserWarning):
    """Coordinates of a density have very different natural lengths."""


class UnnamedKinkWarning(UserWarning):
    """A density has a kink that is not named as an edge or a wall, which costs many evaluations."""


def check_density(
    target: Density, initial: ArrayLike | None, states: int, tolerance: float, generator: np.random.Generator
) -> None:
    """Raise `TargetError` where functions contradict each other, or what was said of them; see `check_target`."""
    start = target.start(generator) if initial is None else target.check_states("initial", initial).reshape(target.d)
    lengths = _natural_lengths(target, start)
    places, kinks = [start], list[str | None]()
    for _ in range(states):
        y = places[-1]
        direction = generator.standard_normal(target.d) * lengths
        direction /= np.sqrt(np.mean((direction / lengths) ** 2) * target.d)
        end = _end_of_cell(target, y, direction)
        _check_python(target, y, direction, tolerance)
        _check_gradient(target, y, direction, end, tolerance)
        kinks.append(_check_ray(target, y, direction, end))
        _check_bound(target, y, direction, end)
        places.append(_move(target, y, direction, generator))
    found = next((kink for kink in kinks if kink is not None), None)
    if found is not None:
        warnings.warn(
            f"log p has a kink that is not named in edges= or walls=, {found}. Results are right, but each crossing "
            "takes about a hundred evaluations",
            UnnamedKinkWarning,
            stacklevel=3,
        )
    best = places[int(np.argmax(target.log_prob(np.array(places))))]
    _warn_of_scales(target, _natural_lengths(target, best))


def _natural_lengths(target: Density, y: Array) -> Array:
    """Return how far each coordinate can go until log p has changed by 1/2, (d,): the further of both directions."""
    here, lengths = float(target.log_prob(y)), np.empty(target.d)
    trials = 2.0 ** np.arange(-60.0, 61.0)
    for i in range(target.d):
        shifted = np.repeat(y[None], 2 * trials.size, axis=0)
        shifted[:, i] += np.concatenate([trials, -trials])
        with np.errstate(invalid="ignore"):
            changed = ~(np.abs(target.log_prob(shifted) - here) < 0.5).reshape(2, -1)
        first = [trials[np.argmax(row)] if row.any() else trials[-1] for row in changed]
        lengths[i] = max(first)
    return lengths


def _end_of_cell(target: Density, y: Array, v: Array) -> float:
    """Return the time, 4 at most, until y + v t meets an edge or a wall."""
    cells, rows = target.cells, target.cells.locate(y)
    with np.errstate(divide="ignore", invalid="ignore"):
        ahead = np.where(v > 0.0, cells.upper[rows] - y, cells.lower[rows] - y) / v
        times = [*ahead, *((c - n @ y) / (n @ v) for n, c in target.walls)]
    return float(min([4.0, *(0.999 * t for t in times if t > 0.0)]))


def _move(target: Density, y: Array, v: Array, generator: np.random.Generator) -> Array:
    """Return a place further along a ray, walls or not, that a chain might go to as well."""
    trial = y + v * generator.uniform(0.0, 2.0)
    fall = float(target.log_prob(y)) - float(target.log_prob(trial))
    return trial if fall < 2.0 + generator.exponential() else y


def _check_python(target: Density, y: Array, v: Array, tolerance: float) -> None:
    """Compare compiled functions with the same functions run by Python."""
    compiled, plain = float(target.log_prob(y)), float(target.run_by_python("log_prob", y=y))
    _require(_close(compiled, plain, tolerance), "log_prob", y, f"gives {compiled} compiled and {plain} as Python")
    if "gradient" in target.roles:
        out = np.full(target.d, np.nan)
        target.run_by_python("gradient", y=y, out=out)
        found = target.gradient(y)
        bad = np.flatnonzero(~(np.abs(found - out) <= tolerance * (1.0 + np.abs(out))))
        if bad.size:
            i = int(bad[0])
            _require(False, "gradient", y, f"writes out[{i}] = {found[i]} compiled and {out[i]} as Python", i)


def _check_gradient(target: Density, y: Array, v: Array, end: float, tolerance: float) -> None:
    """Compare the gradient with differences of log_prob, along the ray and then along each coordinate."""
    if "gradient" not in target.roles:
        return
    step = min(_STEP, 0.25 * end)
    middle = y + 2.0 * step * v
    gradient = target.gradient(middle)
    if _differs(target, middle, v, step, float(gradient @ v), tolerance):
        scale = np.abs(v)
        for i in range(target.d):
            axis = np.eye(target.d)[i] * scale[i]
            if _differs(target, middle, axis, step, float(gradient[i] * scale[i]), tolerance):
                slope = _slope(target, middle, axis, step) / scale[i]
                text = f"writes out[{i}] = {gradient[i]:.10g} where differences of log_prob give {slope:.10g}"
                _require(False, "gradient", middle, text, i)
        _require(False, "gradient", middle, "does not agree with differences of log_prob")


def _differs(target: Density, y: Array, v: Array, step: float, slope: float, tolerance: float) -> bool:
    """Say whether a slope of log p is not that of differences, given how much these lose by rounding and by bending."""
    differences = [_slope(target, y, v, step * factor) for factor in (1.0, 0.5)]
    size = abs(float(target.log_prob(y))) + 1.0
    doubt = 1e-15 * size / step + 4.0 * abs(differences[0] - differences[1])
    return not abs(slope - differences[1]) <= doubt + max(tolerance, 1e-7) * (1.0 + abs(slope))


def _slope(target: Density, y: Array, v: Array, step: float) -> float:
    below, above = target.log_prob(np.stack([y - step * v, y + step * v]))
    return float((above - below) / (2.0 * step))


def _check_ray(target: Density, y: Array, v: Array, end: float) -> str | None:
    """Look for jumps within a cell, and for log p that bends upwards where it must not; describe a kink."""
    low, high = 0.0, end
    for _ in range(_CUTS):
        times = np.linspace(low, high, _POINTS)
        U = -target.log_prob(y + times[:, None] * v)
        if not np.isfinite(U).all():
            k = int(np.argmin(np.isfinite(U)))
            low, high = times[max(k - 1, 0)], times[k]
            continue
        bends = np.abs(np.diff(U, 2))
        k = int(np.argmax(bends))
        if target.convex and high == end:
            sag = float(np.min(np.diff(U, 2)))
            where = y + times[int(np.argmin(np.diff(U, 2))) + 1] * v
            _require(sag > -1e-10 * (1.0 + np.abs(U).max()), "log_prob", where, "is not concave, as convex=True says")
        low, high = times[k], times[k + 2]
    where, h = y + 0.5 * (low + high) * v, high - low
    known = U[np.isfinite(U)]
    if known.size < U.size:
        # Where log p falls to -inf continuously, no particle gets to the end.
        reached = known.size > 0 and known[-1] + float(target.log_prob(y)) < _OUT_OF_REACH
        _require(not reached, "log_prob", where, "becomes -inf where no edge or wall is named")
        return None
    noise = 1e-13 * (1.0 + np.abs(U).max())
    largest = float(np.abs(np.diff(U)).max())
    jumps = largest > 0.5 * abs(U[-1] - U[0]) + noise and largest > 1e3 * h + 100.0 * noise
    _require(not jumps, "log_prob", where, f"jumps by {U[0] - U[-1]:.3g} where no edge or wall is named")
    return _kink(target, where, v, max(h, 1e-7))


def _kink(target: Density, y: Array, v: Array, h: float) -> str | None:
    """Compare slopes of log p on both sides of the most bent stretch of a ray, and describe a kink."""
    near, far = (
        target.log_prob(y + np.array([-2.0, -1.0, 1.0, 2.0])[:, None] * (reach * h) * v) for reach in (10.0, 100.0)
    )
    if not (np.isfinite(near).all() and np.isfinite(far).all()):
        return None
    left, right = (near[1] - near[0]) / (10.0 * h), (near[3] - near[2]) / (10.0 * h)
    bend, broad = abs(right - left), abs((far[3] - far[2]) - (far[1] - far[0])) / (100.0 * h)
    doubt = 1e-14 * (1.0 + np.abs(near).max()) / h
    # The slopes of a smooth function differ ten times as much ten times as far apart.
    if bend <= _KINK * (1.0 + abs(left)) + doubt or bend < 0.5 * broad:
        return None
    return f"near y = {shown(y)}, where its slope along v = {shown(v)} changes from {left:.4g} to {right:.4g}"


def _check_bound(target: Density, y: Array, v: Array, end: float) -> None:
    """Compare the bound on the rate with the rates at points of the ray."""
    if "bound" not in target.roles:
        return
    times = np.linspace(0.0, end, _POINTS)
    points = y + times[:, None] * v
    rates = -(target.gradient(points) @ v)
    bound = float(target.run_by_python("bound", y=y, v=v, horizon=end))
    k = int(np.argmax(rates))
    text = f"returns {bound:.6g} for a horizon of {end:.4g} along v = {shown(v)}, where the rate is {rates[k]:.6g}"
    _require(bool(rates[k] <= bound * (1.0 + 1e-9) + 1e-12), "bound", points[k], text)


def _warn_of_scales(target: Density, lengths: Array) -> None:
    """Warn of coordinates whose lengths differ by much from those of the others."""
    middle = float(np.median(lengths))
    ratio = np.maximum(lengths / middle, middle / lengths)
    far = np.flatnonzero(ratio > _FAR_APART)
    if far.size == 0:
        return
    named = ", ".join(f"{short_label(target.labels[i])} ({lengths[i]:.2g})" for i in far[:5])
    more = f" and {far.size - 5} more" if far.size > 5 else ""
    warnings.warn(
        f"natural lengths of coordinates differ by more than {_FAR_APART:g}: {named}{more}, others about {middle:.2g}. "
        "The warm-up finds them, sooner if you pass scale= or rescale the model",
        BadScaleWarning,
        stacklevel=4,
    )


def _close(a: float, b: float, tolerance: float) -> bool:
    return a == b or abs(a - b) <= tolerance * (1.0 + abs(b))


def _require(holds: bool, function: str, y: Array, what: str, site: int | None = None) -> None:
    if not holds:
        raise TargetError(f"{function} {what}, at y = {shown(y)}", function, site, np.array(y))
