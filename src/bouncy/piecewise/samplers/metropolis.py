"""Random-walk Metropolis for densities given by functions: values of log p, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import implements, part
from bouncy._random import exponential, fill_normal, new_state
from bouncy._samplable import Samplable
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


@dataclass(frozen=True)
class Metropolis(PathSampler):
    """Random-walk Metropolis for a `bouncy.Density`.

    A proposal moves all variables at once, y + step * scale * normal, and is accepted with probability
    min(1, p(new) / p(y)): one evaluation of log p, and no gradient. Jumps and walls need not be named, and may be
    curved. There is nothing to set: the warm-up finds the scale of each variable, and the step at which 44 % of the
    proposals are accepted for one variable, 25 % for four, and 18 % for many. Then both stay what they are.

    Notes
    -----
    A sweep is 10 d proposals. Averages are over all steps, so that a state counts once more for each refused proposal.
    A walk takes O(d) steps for an independent draw at best, and many more where variables are strongly correlated.

    Of many variables it is best to accept 23 % where log p is smooth, and 13 % where it jumps. In between neither loses
    more than a fortieth.

    References
    ----------
    Roberts, Gelman & Gilks, "Weak convergence and optimal scaling of random walk Metropolis algorithms", Annals of
    Applied Probability 7 (1997).
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
        """Change the scale, unless it comes from a few moves. Proposals stay as wide as they are on average."""
        if np.mean([walk.step[MOVES] for walk in motions]) < _FEWEST_MOVES:
            scale = np.exp(np.mean([np.log(walk.scale) for walk in motions], axis=0))
        width = np.mean([np.log(walk.step[STEP]) + np.mean(np.log(walk.scale / scale)) for walk in motions])
        for walk in motions:
            walk.scale[:] = scale
            walk.step[:] = np.exp(width), walk.step[TUNED] if stages else inf, 0.0


NAMED = (
    Named(
        Metropolis(),
        "random walk for `Density`, from values of log p alone; for up to ten variables and many jumps, or curved ones",
        "#cc79a7",
    ),
)


@part(
    "y", "scale", "row", "U", "step", "rng",
    bounds={
        "y": lambda walk: (-_LARGEST, _LARGEST),
        "scale": lambda walk: (_SMALLEST, _LARGEST),
        "step": lambda walk: ([_SMALLEST, 0.0, 0.0], [_LARGEST, inf, inf]),
    },
)  # fmt: skip
class Walk(NamedTuple):
    """State of a walk."""

    y: Array  # (d,)
    scale: Array  # (d,)
    row: NDArray[np.int64]  # (d,) the cell of each coordinate
    U: Array  # (1,) -log p(y)
    step: Array  # (3,) see the indices below
    rng: NDArray[np.uint64]  # (4,)
    new: Array  # (d,) scratch: what is proposed


# Indices into `step`: its length in units of the scale; the sweeps it was tuned in, inf when it stays what it is; the
# moves since the scale was last adapted.
STEP, TUNED, MOVES = range(3)


def new_walk(y: Array, scale: Array, row: NDArray[np.int64], rng: NDArray[np.uint64]) -> Walk:
    """Return a walk at y; `settle` has to be called before it moves."""
    return Walk(
        y=y.copy(),
        scale=scale.copy(),
        row=row.astype(np.int64),
        U=np.zeros(1),
        step=np.array([_BEST_STEP / sqrt(y.size), 0.0, 0.0]),
        rng=rng,
        new=np.empty(y.size),
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
    y, new, scale, rng = walk.y, walk.new, walk.scale, walk.rng
    step, U = walk.step[STEP], walk.U[0]
    held = accepted = 0.0  # steps for which y stands that are not yet recorded
    for _ in range(int(sweep_time)):
        fill_normal(rng, new)
        for i in range(y.size):
            new[i] = y[i] + step * scale[i] * new[i]
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
    walk.step[MOVES] += accepted
    _tune(walk, accepted / sweep_time)
    end_sweep(recorder, y, -U)
    return True


@helper
def _record(walk, recorder, steps):
    """Account for y, which stands for a number of steps."""
    for i in range(walk.y.size):
        record_point(recorder, i, walk.row[i], walk.y[i], steps)
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
def _tune(walk, share):
    """Let the step be longer where a larger share of the last sweep was accepted than is best."""
    gain = _GAIN / sqrt(walk.step[TUNED] + 1.0)
    step = walk.step[STEP] * exp(gain * (share - best_acceptance(walk.y.size)))
    walk.step[STEP] = min(max(step, _SMALLEST), _LARGEST)
    walk.step[TUNED] += 1.0
