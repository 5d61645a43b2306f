"""Ladders whose lanes exchange spins: rungs keep their laws together, log Z is that over the allowed states."""

from __future__ import annotations

import copy
import functools
import itertools
import pickle

import numpy as np
import pytest

import bouncy
from bouncy.workers.contract import Keep, Plan
from bouncy.workers.flock_kernel import settle_flock
from bouncy.workers.ladder import LadderWorker
from conftest import base_seed
from helpers.statistics import chi_square_test, z_test

pytestmark = pytest.mark.slow

LADDER = (0.0, 0.3, 0.7, 1.0)
MODEL = bouncy.MRF.random(4, sigma_M=0.8, sigma_r=0.5, seed=11)
FIELDS = (1.2, -0.8, 0.5, 0.0)


def forbidden(s):
    """Return log p of a target on which three spins +1 in a row are impossible."""
    return -np.inf if s[0] + s[1] + s[2] == 3 else 0.7 * s[0] * s[3] - 0.4 * s[1] + 0.2 * s[2]


CASES = {
    "sum": (lambda: MODEL.fixed_sum(2), "metropolis-swap", "uniform"),
    "groups-and-free": (lambda: MODEL.one_hot([[0, 1, 2]]), "metropolis-mixed", "uniform"),
    "fields": (lambda: MODEL, "metropolis-mixed", FIELDS),
    "walls": (lambda: bouncy.Custom(4, log_prob=forbidden).fixed_sum(3), "metropolis-swap", "uniform"),
}
every_case = pytest.mark.parametrize("case", CASES)


@functools.cache
def target_of(case):
    return CASES[case][0]()


def ladder(case, seed=0):
    _, base, reference = CASES[case]
    sampler = bouncy.Tempered(base, ladder=LADDER, sweeps_per_swap=1, reference=reference)
    seed = np.random.SeedSequence([base_seed(), seed])
    return LadderWorker(target_of(case), sampler, Plan(slots=4), seed, None)


def laws(case):
    """Return the probabilities of all states at each rung, (rungs, 16), and the states."""
    target, s = target_of(case), bouncy.states(4)
    fields = np.array(FIELDS if case == "fields" else (0.0,) * 4)
    allowed = np.ones(16, bool) if target.constraint is None else target.constraint.allows(s)
    log_q = np.where(allowed, -s @ fields, -np.inf)
    with np.errstate(invalid="ignore"):
        log_p = target.log_prob(s)
        rows = [log_q if b == 0.0 else (1.0 - b) * log_q + b * log_p for b in LADDER]
    rows = np.nan_to_num(rows, nan=-np.inf, neginf=-np.inf)
    p = np.exp(rows - rows.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), s


@every_case
def test_the_product_law_stays(case):
    """Catches a lane at another temperature than its rung's, a stale field, a reference that is not drawn anew.

    Joint law of neighbouring rungs after three scans from exact draws, 6000 replicates, alpha 1e-6 each.
    """
    worker, (p, s) = ladder(case), laws(case)
    rng = np.random.default_rng([base_seed(), 3])
    counts = np.zeros((len(LADDER) - 1, 16, 16), np.int64)
    for _ in range(6000):
        worker.lanes[:, worker.toll.swaps.lane] = s[[rng.choice(16, p=row) for row in p]].T
        worker.since_resync[0] = 0
        settle_flock(worker.view, worker.lanes)
        worker.advance(3)
        assert np.array_equal(worker.view.spins.T, worker.lanes)
        found = (worker.lanes[:, worker.toll.swaps.lane].T > 0) @ (1 << np.arange(4))
        for k, (one, other) in enumerate(itertools.pairwise(found)):
            counts[k, one, other] += 1
    for k, table in enumerate(counts):
        expected = np.outer(p[k], p[k + 1])
        chi_square_test(table, expected, name=f"rungs {k} and {k + 1}", detect=0.13).check()


@pytest.mark.parametrize("case", ["sum", "groups-and-free"])
def test_the_reference_is_drawn_anew_in_each_scan(case):
    """Catches a reference that stays, which leaves all laws as they are: successive V there are independent.

    4000 scans; a correlation beyond 6 standard errors, 0.095, fails.
    """
    values = ladder(case).advance(4000, Keep("means")).rows[0]["ladder"][:, 0]
    assert values.std() > 0.1
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 6.0 / np.sqrt(4000)


def test_log_z_is_that_of_the_allowed_states():
    """Catches a reference that is normalised over all states: log Z of twenty models, each run's error bar alone.

    z-test of the standardised errors, alpha 1e-6; sees a bias of five standard errors.
    """
    z = []
    for seed in range(20):
        model = bouncy.MRF.random(6, sigma_M=0.6, sigma_r=0.3, seed=seed)
        target = model.fixed_sum(2) if seed % 2 else model.one_hot([[0, 1, 2], [3, 4]])
        run = bouncy.sample(target, "tempered", chains=4, draws=1500, seed=seed, pairs="all")
        assert np.isfinite(target.log_prob(run.draws)).all()
        z.append((run.log_z - bouncy.exact(target).log_z) / run.log_z_se)
        assert run.curve([0.0]).log_z[0] == pytest.approx(target.log_size, abs=0.05)
    z_test(np.array(z)[:, None], 0.0, detect=5.0).check()
    assert np.abs(z).max() < 6.0


@every_case
def test_a_ladder_can_be_copied_and_restored(case):
    """Catches a part of the ladder, the order of sites of its reference included, that is no part of its state."""
    worker = ladder(case)
    worker.advance(5)
    state, twin, traveller = worker.state(), copy.deepcopy(worker), pickle.loads(pickle.dumps(worker))
    worker.advance(20)
    after = {name: array.copy() for name, array in worker.arrays().items()}
    worker.restore(state)
    for other in (worker, twin, traveller):
        other.advance(20)
        assert all(np.array_equal(array, other.arrays()[name], equal_nan=True) for name, array in after.items())
    if "reference" in state and state["reference"].size:
        with pytest.raises(ValueError, match="reference"):
            worker.restore({**state, "reference": state["reference"] * 0})


def test_what_a_ladder_cannot_do_is_refused():
    """Catches a fitted reference on a restricted target, and a base that cannot move there."""
    target = MODEL.fixed_sum(2)
    for reference in ("fitted", FIELDS):
        with pytest.raises(ValueError, match="uniform on its allowed states"):
            bouncy.sample(target, bouncy.Tempered(reference=reference), draws=10)
    with pytest.raises(ValueError, match="gibbs flips one spin at a time"):
        bouncy.sample(target, bouncy.Tempered("gibbs"), draws=10)
    hidden = bouncy.Custom(4, flip_cost=lambda s, i: np.inf).fixed_sum(2)
    with pytest.raises((ValueError, bouncy.TargetError), match=r"[gG]ive log_prob too"):
        bouncy.sample(hidden, bouncy.Tempered(ladder=LADDER, sweeps_per_swap=1), draws=10)


def test_runs_come_back_with_their_log_z(tmp_path):
    """Catches a file that forgets how many states are allowed."""
    run = bouncy.sample(MODEL.fixed_sum(2), "tempered", chains=2, draws=200, seed=0, pairs="all")
    run.save(tmp_path / "run.npz")
    again = bouncy.Run.load(tmp_path / "run.npz")
    assert again.log_z == run.log_z
    assert again.curve([0.5]).log_z == run.curve([0.5]).log_z
