"""Random-walk Metropolis for densities given by functions: values of log p, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import FINITE, implements, part
from bouncy._lane_loop import WIDTH
from bouncy._random import exponential, fill_normal, new_state
from bouncy._samplable import Samplable
from bouncy._vector import add_products
from bouncy.piecewise.by_address import OUTSIDE, failed, potential, report
from bouncy.piecewise.contract import PathTarget
from bouncy.piecewise.motion import settle, sweep
from bouncy.piecewise.products import products_point
from bouncy.piecewise.recorder import end_sweep, record_point
from bouncy.piecewise.targets.density import Density
from bouncy.recorders.contract import FLIPS, HITS
from bouncy.samplers.contract import Named, PathSampler

Array = NDArray[np.float64]

# Proposals per sweep and variable. A walk on a Gaussian takes about 3 d steps to forget where it was.
_STEPS = 10
# Best step on a Gaussian of many variables, times sqrt(d) (Roberts, Gelman & Gilks 1997).
_BEST_STEP = 2.38
# Change of log(step) after the first sweep, for each unit by which the accepted share is too large; it falls as
# 1 / sqrt(sweeps).
_GAIN = 4.0
# Deviations in fewer moves than this differ between variables by chance, and a variable whose scale has become far too
# small hardly moves any more.
_FEWEST_MOVES = 20
_SMALLEST, _LARGEST = 1e-100, 1e100
# Variables up to which proposals are correlated as the target is. Of more, one costs as much as many a log p.
_MOST_CORRELATED = 32
# Entries of a root of correlations are between -1 and 1, but for rounding.
_LARGEST_ROOT = 1.0 + 1e-9


@dataclass(frozen=True)
class Metropolis(PathSampler):
    """Random-walk Metropolis for a `bouncy.Density`.

    A proposal moves all variables at once, y + step * scale * normal, and is accepted with probability
    min(1, p(new) / p(y)): one evaluation of log p, and no gradient. Jumps and walls need not be named, and may be
    curved. There is nothing to set: the warm-up finds the scale of each variable, the correlations of up to 32, which
    the normals then have as well, and the step at which 44 % of the proposals are accepted for one variable, 25 % for
    four, and 18 % for many. Then all of it stays as it is.

    Notes
    -----
    A sweep is 10 d proposals. Averages are over all steps, so that a state counts once more for each refused proposal.
    A walk takes O(d) steps for an independent draw at best, and many more where variables depend on each other in ways
    that correlations do not tell, or more than 32 are strongly correlated.

    Of many variables it is best to accept 23 % where log p is smooth, and 13 % where it jumps. In between neither loses
    more than a fortieth.

    References
    ----------
    Roberts, Gelman & Gilks, "Weak convergence and optimal scaling of random walk Metropolis algorithms", Annals of
    Applied Probability 7 (1997).
    Haario, Saksman & Tamminen, "An adaptive Metropolis algorithm", Bernoulli 7 (2001).
    Neal, Roberts & Yuen, "Optimal scaling of random walk Metropolis algorithms with discontinuous target densities",
    Annals of Applied Probability 22 (2012).

    Examples
    --------
    >>> import numpy as np, bouncy
    >>> def log_prob(y):  # a disc with a step, and no edge or wall is named
    ...     return -np.inf if y[0] ** 2 + y[1] ** 2 > 1.0 else 2.0 * (y[0] > 0.0)
    >>> disc = bouncy.Density(2, log_prob, lambda y, out: out.fill(0.0))
    >>> run = bouncy.sample(disc, "metropolis", draws=1000, seed=0)
    >>> bool(abs(run.probability(lower=0.0)[0][0] - np.exp(2) / (1 + np.exp(2))) < 0.02)
    True
    """

    @property
    def name(self) -> str:
        return "metropolis"

    @property
    def events(self) -> tuple[str, str]:
        return "proposals", "accepted"

    def accepts(self, target: Samplable[Any]) -> bool:
        return isinstance(target, Density)

    def sweep_time(self, d: int) -> float:
        """Return the number of proposals per sweep."""
        return float(_STEPS * d)

    def start(self, target: PathTarget, y: Array, row: NDArray[np.int64], seed: np.random.SeedSequence) -> Walk:
        return new_walk(y, target.scale, row, new_state(seed))

    def adapt(self, motions: Sequence[Walk], scale: Array, stages: int) -> None:
        """Change scale and correlations, unless moves are few. Proposals stay as wide as they are on average."""
        few = np.mean([walk.step[MOVES] for walk in motions]) < _FEWEST_MOVES
        if few:
            scale = np.exp(np.mean([np.log(walk.scale) for walk in motions], axis=0))
        factor = np.asarray(np.linalg.cholesky(_correlations(motions, few)).T, np.float64)
        width = np.mean([np.log(walk.step[STEP]) + _log_width(walk.scale, walk.factor) for walk in motions])
        step = np.exp(width - _log_width(scale, factor))
        for walk in motions:
            walk.scale[:], walk.factor[:], walk.spread[:] = scale, factor, 0.0
            walk.step[:] = step, walk.step[TUNED] if stages else inf, 0.0, 0.0


def _correlations(motions: Sequence[Walk], few: bool) -> Array:
    """Return the correlations of what was seen, mixed with those so far, which weigh as much as d sweeps."""
    present: Array = np.mean([walk.factor.T @ walk.factor for walk in motions], axis=0)
    spread = np.sum([walk.spread for walk in motions], axis=0)
    length = np.sqrt(spread.diagonal())
    if few or not length.all():
        return present
    d, sweeps = motions[0].y.size, sum(walk.step[SEEN] for walk in motions)
    mixed: Array = (sweeps * spread / np.outer(length, length) + d * present) / (sweeps + d)
    return mixed


def _log_width(scale: Array, factor: Array) -> float:
    """Return the logarithm of how wide proposals of step 1 are, a mean over directions."""
    return float(np.log(scale).sum() + np.log(factor.diagonal()).sum()) / scale.size


NAMED = (
    Named(
        Metropolis(),
        "random walk for `Density`, from values of log p alone; for up to ten variables and many jumps, or curved ones",
        "#cc79a7",
    ),
)


@part(
    "y", "scale", "factor", "spread", "row", "U", "step", "rng",
    bounds={
        "y": lambda walk: (-_LARGEST, _LARGEST),
        "scale": lambda walk: (_SMALLEST, _LARGEST),
        "factor": lambda walk: (np.where(np.eye(len(walk.factor)), _SMALLEST, -_LARGEST_ROOT), _LARGEST_ROOT),
        "step": lambda walk: ([_SMALLEST, 0.0, 0.0, 0.0], [_LARGEST, inf, inf, FINITE]),
    },
)  # fmt: skip
class Walk(NamedTuple):
    """State of a walk."""

    y: Array  # (d,)
    scale: Array  # (d,)
    factor: Array  # (d, d) upper triangular, a root of the correlations of a proposal; (0, 0) where it has none
    spread: Array  # likewise, the sum over sweeps of the products of what they changed
    row: NDArray[np.int64]  # (d,) the cell of each coordinate
    U: Array  # (1,) -log p(y)
    step: Array  # (4,) see the indices below
    rng: NDArray[np.uint64]  # (4,)
    drawn: Array  # (d, WIDTH) scratch: independent normals for the next proposals, a column each
    normals: Array  # (d, WIDTH) scratch: the same, correlated
    order: NDArray[np.int64]  # (d,) 0, 1, ...
    new: Array  # (d,) scratch: what is proposed
    begun: Array  # (d,) scratch: where a sweep began


# Indices into `step`: its length in units of the scale; the sweeps it was tuned in, inf when it stays what it is; the
# moves and the sweeps since the scale was last adapted.
STEP, TUNED, MOVES, SEEN = range(4)


def new_walk(y: Array, scale: Array, row: NDArray[np.int64], rng: NDArray[np.uint64]) -> Walk:
    """Return a walk at y; `settle` has to be called before it moves."""
    correlated = y.size if 1 < y.size <= _MOST_CORRELATED else 0
    return Walk(
        y=y.copy(),
        scale=scale.copy(),
        factor=np.eye(correlated),
        spread=np.zeros((correlated, correlated)),
        row=row.astype(np.int64),
        U=np.zeros(1),
        step=np.array([_BEST_STEP / sqrt(y.size), 0.0, 0.0, 0.0]),
        rng=rng,
        drawn=np.empty((y.size, WIDTH)),
        normals=np.empty((y.size, WIDTH)),
        order=np.arange(y.size),
        new=np.empty(y.size),
        begun=np.empty(y.size),
    )


@helper
def best_acceptance(d):
    """Return the share of proposals that should be accepted: between those that are best for smooth log p and jumps."""
    return 0.18 + 0.26 / d


@implements(settle, Walk)
def _settle(walk, view, evaluations):
    walk.U[0] = potential(view, walk.y, evaluations)
    if walk.U[0] == inf:
        report(view.fault, view.where, OUTSIDE, walk.y)


@implements(sweep, Walk)
def _sweep(walk, view, recorder, sweep_time):
    y, new, rng = walk.y, walk.new, walk.rng
    U = walk.U[0]
    for i in range(y.size):
        walk.begun[i] = y[i]
    held = accepted = 0.0  # steps for which y stands that are not yet recorded
    for k in range(int(sweep_time)):
        if k % WIDTH == 0:
            _draw(walk)
        for i in range(y.size):
            new[i] = y[i] + walk.step[STEP] * walk.scale[i] * walk.normals[i, k % WIDTH]
        proposed = potential(view, new, recorder.evaluations)
        if failed(view):
            return False
        if proposed - U < exponential(rng):
            _record(walk, recorder, held)
            _move(walk, view, recorder)
            U = proposed
            accepted += 1.0
            held = 0.0
        held += 1.0
    _record(walk, recorder, held)
    walk.U[0] = U
    recorder.open_events[HITS] += sweep_time
    recorder.open_events[FLIPS] += accepted
    _learn(walk, accepted, sweep_time)
    end_sweep(recorder, y, -U)
    return True


@helper
def _draw(walk):
    """Draw the normals of the next proposals, correlated as `factor` says."""
    drawn, normals = walk.drawn, walk.normals
    for i in range(drawn.shape[0]):
        fill_normal(walk.rng, drawn[i])
        for k in range(WIDTH):
            normals[i, k] = 0.0 if walk.factor.size else drawn[i, k]
    if walk.factor.size:
        add_products(normals, walk.factor, walk.order, walk.order.size, drawn)


@helper
def _record(walk, recorder, steps):
    """Account for y, which stands for a number of steps."""
    for i in range(walk.y.size):
        record_point(recorder, i, walk.row[i], walk.y[i], 1.0, steps)
    products_point(recorder.products, walk.y, steps)


@helper
def _move(walk, view, recorder):
    """Go to what was proposed, and note the cells that it is in."""
    for i in range(walk.y.size):
        y, row = walk.new[i], walk.row[i]
        walk.y[i] = y
        if y < view.lower[row] or y >= view.upper[row]:
            walk.row[i] = _row_of(view, i, y)
            recorder.flips[i] += 1


@helper
def _row_of(view, i, y):
    """Return the cell of a coordinate; on an edge, the one above."""
    low, high = view.first[i], view.first[i + 1] - 1
    while low < high:
        middle = (low + high) // 2
        if y < view.upper[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@helper
def _learn(walk, accepted, proposals):
    """Let the step be longer where a larger share of a sweep was accepted than is best, and note what it changed."""
    if walk.step[TUNED] == inf:
        return
    share = accepted / proposals
    for i in range(walk.factor.shape[0]):
        for j in range(walk.factor.shape[0]):
            walk.spread[i, j] += (walk.y[i] - walk.begun[i]) * (walk.y[j] - walk.begun[j])
    gain = _GAIN / sqrt(walk.step[TUNED] + 1.0)
    step = walk.step[STEP] * exp(gain * (share - best_acceptance(walk.y.size)))
    walk.step[STEP] = min(max(step, _SMALLEST), _LARGEST)
    walk.step[TUNED] += 1.0
    walk.step[MOVES] += accepted
    walk.step[SEEN] += 1.0
