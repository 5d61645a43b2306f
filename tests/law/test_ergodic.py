"""From any start, the law of the state after a bounded number of sweeps is p(s), with default settings (L3).

Between refreshments the Gaussian clock tries the sites in a fixed cyclic order, and a flip that costs nothing always
passes, so targets with ties and near-ties are the ones on which a sampler may stay in a part of the states for ever.
Each start is tested by itself: the errors of starts that are mirror images would cancel. The
false-alarm rate is 1e-6 per assertion, and `detect` is the error that an assertion sees with probability 0.999.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray

from bouncy._random import new_state
from bouncy.clocks.gaussian import GAUSSIAN
from bouncy.enumeration import exact, states
from bouncy.samplers import registry
from bouncy.samplers.bps import BPS
from bouncy.samplers.contract import NotErgodicWarning, SpinSampler
from bouncy.samplers.hmc import HMC
from bouncy.samplers.metropolis import Metropolis
from bouncy.targets.mrf import MRF
from conftest import base_seed
from helpers.compiled_clocks import fill_compiled
from helpers.replicates import PairSet, Replicates, overdispersed_starts, replicate_sampler, state_numbers
from helpers.statistics import Outcome, chi_square_test, z_test

SEED = base_seed()
REPLICATES = 12_000
# A systematic Metropolis scan is known not to be ergodic on tied targets: it is among the negative controls.
SAMPLERS = {entry.name: entry.sampler for entry in registry(SpinSampler)}
SAMPLERS = {
    name: sampler
    for name, sampler in SAMPLERS.items()
    if name not in ("auto", "metropolis", "metropolis-swap", "tempered")
}
SAMPLERS |= {"hmc-half-a-turn": HMC(travel_time=0.5 * math.pi)}
STARTS = ("all up", "all down", "alternating", "uniform")  # rows k, k + 4, ... of overdispersed_starts
LAGS = "s_i at time 0 times s_j at the end"
PAIR_LAGS = "s_i s_j at time 0 times s_i s_j at the end"


def plus_minus_ring(d: int, strength: float) -> MRF:
    """Return a ring whose bonds alternate in sign but for an odd number of negative ones, so that one is frustrated."""
    sign = np.where(np.arange(d) % 2, 1.0, -1.0)
    sign[0] *= -1 if np.prod(sign) > 0 else 1
    bonds = np.zeros((d, d))
    bonds[np.arange(d), (np.arange(d) + 1) % d] = -strength * sign
    return MRF(bonds + bonds.T)


def torus(side: int, coupling: float) -> MRF:
    """Return a lattice in dense storage: loops for one storage are enough, and those are needed anyway."""
    return MRF(MRF.ising((side, side), coupling).M.toarray())


@dataclass(frozen=True)
class Problem:
    """A target and the number of sweeps after which every start must be forgotten."""

    target: MRF
    sweeps: int = 150
    cells: Callable[[NDArray[np.int8]], NDArray[np.int64]] | None = None  # of states, where 2^d are too many


def level_and_magnetisation(s: NDArray[np.int8]) -> NDArray[np.int64]:
    """Number the pairs (sum over bonds, sum over sites) of states of the 4x4 torus."""
    bonds = MRF.ising((4, 4), coupling=1.0).log_prob(s)
    number: NDArray[np.int64] = ((bonds + 32) * 33 + s.sum(axis=1) + 16).astype(np.int64)
    return number


PROBLEMS = {
    "flat": Problem(MRF(np.zeros((8, 8)))),
    "flat-sparse": Problem(MRF(scipy.sparse.csr_array((8, 8)))),
    "field": Problem(MRF(np.zeros((8, 8)), 0.3)),
    "torus-3x3-0": Problem(torus(3, 0.0)),
    "torus-3x3-1e-6": Problem(torus(3, 1e-6)),
    "torus-3x3-0.3": Problem(torus(3, 0.3)),
    "torus-4x4-0": Problem(torus(4, 0.0), 250, cells=level_and_magnetisation),
    "torus-4x4-1e-6": Problem(torus(4, 1e-6), 250, cells=level_and_magnetisation),
    "torus-4x4-0.3": Problem(torus(4, 0.3), cells=level_and_magnetisation),
    "ring-8": Problem(plus_minus_ring(8, 0.5)),
    "ring-9": Problem(plus_minus_ring(9, 0.5)),
    "random-dense": Problem(MRF.random(5, sigma_M=0.5, sigma_r=0.3, seed=1)),
    "random-sparse": Problem(MRF(scipy.sparse.csr_array(MRF.random(5, 0.5, 0.3, seed=1).M), 0.2)),
}


def run_from_all_starts(problem: Problem, sampler: SpinSampler) -> tuple[NDArray[np.int8], Replicates]:
    """Return the starts and the replicates of a problem."""
    starts = overdispersed_starts(REPLICATES, problem.target.d, seed=SEED)
    pairs: PairSet = "edges" if problem.target.is_sparse else "all"
    sweeps = -(-problem.sweeps // sampler.stride) * sampler.stride  # whole trajectories of HMC
    run = replicate_sampler(problem.target, sampler, starts, n_sweeps=sweeps, seed=SEED + 1, pairs=pairs)
    return starts, run


def law_outcomes(problem: Problem, starts: NDArray[np.int8], s: NDArray[np.int8]) -> Iterator[Outcome]:
    """Compare the law of the final s with p(s): cells, means and pairs from each start, lags from uniform starts."""
    d = problem.target.d
    e = exact(problem.target)
    cell = problem.cells or state_numbers
    number_of = cell(states(d))
    probabilities = np.bincount(number_of, weights=e.probabilities)
    i, j = np.triu_indices(d, 1)
    for k, name in enumerate(STARTS):
        final = s[k::4].astype(np.float64)
        counts = np.bincount(cell(s[k::4]), minlength=probabilities.size)
        yield chi_square_test(counts, probabilities, detect=0.16, smallest_expected=20, name=f"states from {name}")
        yield z_test(final, e.mean, detect=0.2, name=f"means from {name}")
        yield z_test(final[:, i] * final[:, j], e.pair_mean[i, j], detect=0.2, name=f"pairs from {name}")
    total = np.bincount(cell(s), minlength=probabilities.size)
    yield chi_square_test(total, probabilities, detect=0.09, smallest_expected=30, name="states from all starts")
    yield z_test(s[:, i] * s[:, j], e.pair_mean[i, j], detect=0.1, name="pairs from all starts")
    # Uniform starts have mean zero, so a product with a state that has forgotten them has mean zero on every target.
    start, final = starts[3::4].astype(np.float64), s[3::4].astype(np.float64)
    yield z_test(start[:, :, None] * final[:, None, :], 0.0, detect=0.2, name=LAGS)
    yield z_test(start[:, i] * start[:, j] * final[:, i] * final[:, j], 0.0, detect=0.2, name=PAIR_LAGS)


# Two samplers are tried on most kinds of problems. The rest, and problems that are easier or similar to another one,
# are for the long tests, in which not every sampler meets all of those.
OTHERS = [name for name in SAMPLERS if name not in ("bps-gaussian", "hmc")]
LATER = [name for name in OTHERS if name != "bps-exponential"]
ALIKE = (
    "flat-sparse", "field", "torus-3x3-0", "torus-4x4-0", "torus-4x4-1e-6", "torus-4x4-0.3", "ring-8", "random-sparse",
    "torus-3x3-0.3", "ring-9",
)  # fmt: skip


def is_long(sampler: str, problem: str) -> bool:
    """Say whether a case is left to the long tests."""
    return problem in ALIKE or sampler in OTHERS


CASES = [
    pytest.param(
        SAMPLERS[sampler],
        PROBLEMS[problem],
        id=f"{sampler}-{problem}",
        marks=[pytest.mark.slow] if is_long(sampler, problem) else [],
    )
    for sampler in SAMPLERS
    for problem in PROBLEMS
    if sampler not in LATER or problem not in ALIKE
]


@pytest.mark.parametrize(("sampler", "problem"), CASES)
def test_law_is_reached_from_every_start(sampler: SpinSampler, problem: Problem) -> None:
    """A refreshment that is too rare, or forgets a part of the velocity, leaves the law tied to its start."""
    starts, run = run_from_all_starts(problem, sampler)
    for outcome in law_outcomes(problem, starts, run.s):
        outcome.check()
    for k in range(len(STARTS)):
        moved = run.s[k::4] != starts[k::4]
        assert (moved.any(axis=0) & ~moved.all(axis=0)).all()


another_flat_one = pytest.param("torus-3x3-0", marks=pytest.mark.slow)
a_nearly_flat_one = pytest.param("torus-3x3-1e-6", marks=pytest.mark.slow)


@pytest.mark.parametrize("problem", ["flat", another_flat_one, a_nearly_flat_one])
def test_no_refreshment_is_seen(problem: str) -> None:
    """Negative control: the checks above must not pass a sampler that is known not to be ergodic.

    Uniform starts stay uniform on a flat target: only the lags of pairs show the error, as each single spin flips often
    enough.
    """
    with pytest.warns(NotErgodicWarning, match="without refreshment"):
        sampler = BPS("gaussian", refreshment=0.0)
    assert_not_ergodic(PROBLEMS[problem], sampler)


@pytest.mark.parametrize("problem", ["flat", another_flat_one])
def test_whole_turns_are_seen(problem: str) -> None:
    """Negative control: in a travel time of two turns every free flip is undone, or made, by all sites alike."""
    with pytest.warns(NotErgodicWarning, match="Add half a turn"):
        sampler = HMC(travel_time=2 * math.pi)
    assert_not_ergodic(PROBLEMS[problem], sampler)


@pytest.mark.parametrize("problem", ["flat", another_flat_one])
def test_systematic_metropolis_is_seen(problem: str) -> None:
    """Negative control: in a sweep of a systematic Metropolis scan all free flips are made."""
    assert_not_ergodic(PROBLEMS[problem], Metropolis())


def assert_not_ergodic(problem: Problem, sampler: SpinSampler) -> None:
    starts, run = run_from_all_starts(problem, sampler)
    outcomes = {outcome.test: outcome for outcome in law_outcomes(problem, starts, run.s)}
    for start in STARTS[:3]:
        assert abs(outcomes[f"states from {start}"].z) > 15
        assert abs(outcomes[f"pairs from {start}"].z) > 15
    assert abs(outcomes[PAIR_LAGS].z) > 15


def test_two_d_states_without_refreshment() -> None:
    """A clock that lost the fixed order of its lines would reach more than 2d of the 2^d states of a flat target."""
    d = 8
    clock = GAUSSIAN.start(d, 0.0, new_state(np.random.SeedSequence(SEED)))
    times, sites = np.empty(10_000), np.empty(10_000, np.int32)
    n, _ = fill_compiled(clock, np.inf, times, sites)
    assert n == times.size
    s = np.ones(d, np.int8)
    seen = set()
    for i in sites:
        s[i] = -s[i]
        seen.add(s.tobytes())
    assert len(seen) == 2 * d
