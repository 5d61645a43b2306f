"""Random-walk Metropolis on densities of functions: a literal twin, its law, the warm-up, errors."""

from __future__ import annotations

import contextlib
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bouncy
from bouncy import Density, TargetError
from bouncy._dispatch import check_bounds, named_state
from bouncy._random import exponential, fill_normal, new_state
from bouncy.piecewise import Metropolis
from bouncy.piecewise.motion import advance, prepare
from bouncy.piecewise.products import new_products
from bouncy.piecewise.recorder import BINS, PathRecorder, new_path_recorder, take_batch
from bouncy.piecewise.samplers.metropolis import MOVES, SEEN, STEP, TUNED, Walk, best_acceptance
from bouncy.recorders.contract import FLIPS, HITS
from bouncy.run.driver import restored_workers
from bouncy.targets.contract import raise_failure
from conftest import base_seed
from helpers.statistics import z_test
from piecewise.densities import DensityLaw, law_of
from piecewise.test_density import (
    FAILURES,
    normal_gradient,
    normal_log_prob,
    raising_gradient,
    stretched_gradient,
    stretched_log_prob,
)

Array = NDArray[np.float64]
SEED = base_seed()
# Ends of the bins of the recorder.
LOW, HIGH = -1.0, 2.0
QUICK = {"chains": 2, "draws": 200, "warmup": 50, "seed": 0, "progress": False}


@dataclass
class Engine:
    """A walk, its density and its recorder, with room for the state at the end of each sweep."""

    walk: Walk
    view: Any
    recorder: PathRecorder

    def run(self, sweeps: int) -> None:
        d = self.walk.y.size
        self.recorder = self.recorder._replace(draws=np.empty((sweeps, d)), log_prob=np.empty(sweeps))
        advance(self.walk, self.view, self.recorder, Metropolis().sweep_time(d), sweeps)
        raise_failure(self.view)


def launch(target: Density, y: Array, seed: np.random.SeedSequence) -> Engine:
    """Return a walk at y, in the lengths of the target."""
    d, view = target.d, target.view()
    walk = Metropolis().start(target, y, target.cells.locate(y), seed)
    low, high = np.full(d, LOW), np.full(d, HIGH)
    recorder = new_path_recorder(d, target.cells.lower.size, low, high, new_products(d))
    prepare(walk, view, recorder.evaluations)
    recorder.evaluations[:] = 0
    return Engine(walk, view, recorder)


# --- the twin ---------------------------------------------------------------------------------------------------------


@dataclass
class LiteralWalk:
    """Metropolis as in a textbook, and each state that it was in; the order of random numbers is that of the engine."""

    target: Density
    y: Array
    rng: NDArray[np.uint64]
    log_step: float
    root: Array
    tuned: bool
    states: list[Array] = field(default_factory=list)
    accepted: int = 0

    def sweep(self, number: int) -> None:
        d, before = self.y.size, self.accepted
        for k in range(10 * d):
            with np.errstate(over="ignore"):  # sums of 64-bit integers wrap around on purpose
                if k % 8 == 0:  # eight are drawn together
                    normals = np.empty(8 * d)
                    fill_normal(self.rng, normals)
                budget = exponential(self.rng)
            z = normals.reshape(d, 8)[:, k % 8]
            new = self.y + np.exp(self.log_step) * self.target.scale * (self.root @ z)
            if self.target.log_prob(self.y) - self.target.log_prob(new) < budget:
                self.y, self.accepted = new, self.accepted + 1
            self.states.append(self.y)
        if self.tuned:
            share = (self.accepted - before) / (10 * d)
            self.log_step += 4.0 / np.sqrt(number + 1) * (share - (0.18 + 0.26 / d))


@pytest.mark.parametrize("tuned", [False, True])
@pytest.mark.parametrize("name", ["staircase", "oblique", "polytope", "quartic"])
def test_steps_are_those_of_the_twin(name, tuned):
    """Catches a wrong proposal or acceptance, a state that counts too often or in a wrong cell, a wrong step.

    There are jumps at edges, one at a wall, hard walls, and one variable alone. Proposals are correlated.
    """
    sweeps, law, number = 6, law_of(name), zlib.crc32(name.encode())
    start = law.draw(np.random.default_rng([SEED, number]), 1)[0]
    seed = np.random.SeedSequence([SEED, number])
    engine = launch(law.target, start, seed)
    engine.walk.step[TUNED] = 0.0 if tuned else np.inf
    root = np.linalg.cholesky(np.eye(law.d) + 0.5 * np.tri(law.d, k=-1) + 0.5 * np.tri(law.d, k=-1).T)
    engine.walk.factor[:] = root.T[: len(engine.walk.factor)]
    twin = LiteralWalk(law.target, start, new_state(seed), float(np.log(engine.walk.step[STEP])), root, tuned)
    engine.run(sweeps)
    for k in range(sweeps):
        twin.sweep(k)
    states, sums = np.array(twin.states), take_batch(engine.recorder)
    assert 0 < twin.accepted < len(states)
    np.testing.assert_allclose(engine.recorder.draws, states[10 * law.d - 1 :: 10 * law.d], rtol=1e-12)
    log_prob = law.target.log_prob(engine.recorder.draws)
    np.testing.assert_allclose(engine.recorder.log_prob, log_prob, rtol=1e-12)
    np.testing.assert_allclose(sums["mean"], states.sum(axis=0), rtol=1e-10)
    np.testing.assert_allclose(sums["square"], (states**2).sum(axis=0), rtol=1e-10)
    np.testing.assert_allclose(sums["products"], (states.T @ states).ravel(), rtol=1e-10)
    cells = law.target.cells
    rows = np.array([cells.locate(y) for y in states])
    assert np.array_equal(sums["cell"], np.bincount(rows.ravel(), minlength=cells.lower.size))
    places = np.clip(np.floor((states - LOW) / ((HIGH - LOW) / BINS)), -1, BINS).astype(int) + 1
    bins = [np.bincount(column, minlength=BINS + 2) for column in places.T]
    assert np.array_equal(sums["bin"], np.ravel(bins))
    assert engine.recorder.flips.tolist() == (np.diff(rows, axis=0, prepend=[cells.locate(start)]) != 0).sum(0).tolist()
    assert sums["events"][[HITS, FLIPS]].tolist() == [len(states), twin.accepted]
    assert engine.recorder.evaluations.tolist() == [len(states), 0, 0]
    assert engine.walk.step[STEP] == pytest.approx(np.exp(twin.log_step), rel=1e-12)
    changed = np.diff(engine.recorder.draws, axis=0, prepend=[start])
    if tuned and law.d > 1:
        np.testing.assert_allclose(engine.walk.spread, changed.T @ changed, rtol=1e-10)


# --- the law (layer L2) -----------------------------------------------------------------------------------------------

WALKS, SWEEPS = 6000, 20


def walks(law: DensityLaw) -> tuple[Array, Array, Array, Array]:
    """Return means, (n, d), products, (n, d d), and times in cells, (n, cells), of walks from exact draws, and ends."""
    number = zlib.crc32(law.target.fingerprint.encode())
    engine = launch(law.target, law.target.start(np.random.default_rng(0)), np.random.SeedSequence([SEED, 2, number]))
    engine.walk.step[TUNED] = np.inf
    found, ends = [], []
    for start in law.draw(np.random.default_rng([SEED, 3, number]), WALKS):
        engine.walk.y[:] = start
        engine.walk.row[:] = law.target.cells.locate(start)
        prepare(engine.walk, engine.view, engine.recorder.evaluations)
        engine.run(SWEEPS)
        sums = take_batch(engine.recorder)
        found.append([sums[name] / (SWEEPS * 10 * law.d) for name in ("mean", "products", "cell")])
        ends.append(engine.walk.y.copy())
    mean, product, cell = (np.array(column) for column in zip(*found, strict=True))
    return mean, product, cell, np.array(ends)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["staircase", "oblique", "polytope", "double-well"])
def test_law(name):
    """Catches what biases averages or moves the law away from where it began: jumps, hard walls, two wells.

    The false-alarm rate is 1e-6 for each of four assertions; `detect` is what is seen with probability 0.999.
    """
    law = law_of(name)
    mean, product, cell, ends = walks(law)
    spread = np.sqrt(np.diag(law.product))
    z_test(mean, law.mean, detect=0.05 * spread, name="means").check()
    z_test(product, law.product.ravel(), detect=0.1 * np.outer(spread, spread).ravel(), name="products").check()
    z_test(cell, law.cell, detect=0.03, name="cells").check()
    for outcome in law.final(ends, 0.08):
        outcome.check()


# --- the warm-up ------------------------------------------------------------------------------------------------------


def _states(run) -> list[dict[str, Array]]:
    return [worker.state() for worker in restored_workers(run._data)]


@pytest.mark.parametrize("d", [1, 4])
def test_the_warm_up_finds_lengths_and_step(d):
    """Catches a step that is tuned the wrong way or for too short, and lengths that are lost: from 1e-3 to 1e3.

    Scores beyond 7 come up with probability 1e-7 each.
    """
    widths = np.array([1e3, 1e-3, 1.0, 30.0])[:d]
    target = Density(d, stretched_log_prob, stretched_gradient, data=widths, scale=1.0)
    run = bouncy.sample(target, "metropolis", chains=4, draws=500, seed=SEED, progress=False)
    assert (np.abs(run.mean - widths) < 7 * run.mean_se).all()
    assert (run.mean_se < 0.1 * widths).all()
    assert abs(run.diagnostics["flips"] / run.diagnostics["hits"] - best_acceptance(d)) < 0.05
    found = np.array([state["motion.scale"] for state in _states(run)])
    assert (found == found[0]).all()
    assert (np.abs(np.log(found[0] / widths)) < np.log(1.5)).all()


def strongly_correlated(y, precision):
    total = 0.0
    for i in range(y.size):
        for j in range(y.size):
            total -= 0.5 * y[i] * precision[i, j] * y[j]
    return total


@pytest.mark.parametrize(("d", "followed"), [(3, True), pytest.param(33, False, marks=pytest.mark.slow)])
def test_the_warm_up_finds_correlations(d, followed):
    """Catches correlations that are lost, forgotten at the end of a stage or given to the wrong variables.

    Errors of correlations, of which about 300 draws are seen, are below 0.1 but for a probability of 1e-4.
    """
    rho = 0.95 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    width = 10.0 ** np.linspace(-2.0, 2.0, d)
    precision = np.linalg.inv(rho) / np.outer(width, width)
    target = Density(d, strongly_correlated, lambda y, out, data: None, data=precision)
    sweeps = 1000 if followed else 5
    run = bouncy.sample(target, "metropolis", chains=2, draws=4, warmup=sweeps, seed=SEED, progress=False)
    first, second = (state["motion.factor"] for state in _states(run))
    assert np.array_equal(first, second)
    assert first.shape == ((d, d) if followed else (0, 0))
    if followed:
        np.testing.assert_allclose(first.T @ first, rho, atol=0.1)
        assert (np.tril(first, -1) == 0.0).all()


def test_correlations_are_mixed_with_those_so_far():
    """Catches correlations from a few moves or sweeps that are believed, and a width that changes with them."""
    target = Density(2, normal_log_prob, normal_gradient, scale=[1.0, 2.0])
    for moves, expected in ((10.0, 0.0), (30.0, 0.5 * 6.0 / 8.0)):
        motions = [launch(target, np.zeros(2), np.random.SeedSequence(k)).walk for k in range(2)]
        for walk in motions:
            walk.step[[MOVES, SEEN]] = moves, 3.0
            walk.spread[:] = [[1.0, 5.0], [5.0, 100.0]]
        width = motions[0].step[STEP] * np.sqrt(motions[0].scale.prod())
        Metropolis().adapt(motions, np.array([3.0, 4.0]), 1)
        for walk in motions:
            np.testing.assert_allclose(walk.factor.T @ walk.factor, [[1.0, expected], [expected, 1.0]], rtol=1e-12)
            assert walk.step[SEEN] == walk.spread.any() == 0.0
            directions = walk.scale.prod() * walk.factor.diagonal().prod()
            np.testing.assert_allclose(walk.step[STEP] * np.sqrt(directions), width)


def test_roots_of_correlations_may_be_rounded():
    """Catches a checkpoint of our own that is refused because an entry is 1 and a rounding error."""
    target = Density(2, normal_log_prob, normal_gradient, scale=[1.0, 2.0])
    walk = launch(target, np.zeros(2), np.random.SeedSequence(0)).walk
    for entry, fits in ((1.0 + 1e-15, True), (1.1, False), (0.0, False)):
        walk.factor[0, 0] = entry
        with contextlib.nullcontext() if fits else pytest.raises(ValueError, match=r"motion\.factor"):
            check_bounds(named_state("motion", walk), "motion", walk)


def test_scale_and_step_stay_while_results_are_recorded():
    """Catches a walk that adapts to what is recorded, by which averages are biased."""
    target = Density(2, normal_log_prob, normal_gradient, scale=[0.05, 20.0])
    for warmup in (0, 64):
        run = bouncy.sample(target, "metropolis", **{**QUICK, "warmup": warmup})
        for first, later in zip(_states(run), _states(run.extend(200)), strict=True):
            assert np.array_equal(first["motion.scale"], later["motion.scale"])
            assert first["motion.step"][STEP] == later["motion.step"][STEP] == _states(run)[0]["motion.step"][STEP]
        if warmup == 0:
            np.testing.assert_allclose(later["motion.scale"], [0.05, 20.0], rtol=1e-12)


def test_scales_from_a_few_moves_are_not_believed():
    """Catches a variable that hardly moves any more since it happened not to, and a width that changes with scales."""
    target = Density(2, normal_log_prob, normal_gradient, scale=[1.0, 2.0])
    motions = [launch(target, np.zeros(2), np.random.SeedSequence(k)).walk for k in range(2)]
    width = [walk.step[STEP] * np.sqrt(walk.scale.prod()) for walk in motions]
    for moves, expected in ((10.0, [1.0, 2.0]), (30.0, [0.01, 8.0])):
        for walk in motions:
            walk.step[MOVES] = moves
        Metropolis().adapt(motions, np.array([0.01, 8.0]), 1)
        for walk in motions:
            np.testing.assert_allclose(walk.scale, expected, rtol=1e-12)
            assert walk.step[MOVES] == walk.step[TUNED] == 0.0
        np.testing.assert_allclose([walk.step[STEP] * np.sqrt(walk.scale.prod()) for walk in motions], width)


# --- runs and errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["log p raises", "log p is nan", "log p is inf"])
def test_what_log_prob_must_not_do_stops_the_chain(case):
    """Catches a NaN that is taken for a refusal, or an error that says not where; the gradient is never called."""
    changed, _, message = FAILURES[case]
    target = Density(1, changed["log_prob"], raising_gradient, scale=[1.0], initial=[[0.0]])
    with pytest.raises(TargetError, match=rf"^chain [01]: log_prob \({message}.* at y = \[[1-9]") as caught:
        bouncy.sample(target, "metropolis", **QUICK)
    assert caught.value.state[0] > 1.0
    assert isinstance(caught.value.__cause__, ArithmeticError) == ("raises" in case)


def test_a_run_says_what_it_did():
    """Catches proposals that are called walls, and evaluations beside those of the steps."""
    run = bouncy.sample(law_of("staircase").target, "metropolis", **QUICK)
    report, steps = run.diagnostics, 2 * 200 * 20
    assert report["hits"] == steps
    assert report["evaluations"] == {"log_prob": steps, "gradient": 0, "bound": 0}
    text = str(run.summary())
    assert f"{steps:,} proposals, {report['flips']:,} accepted ({report['flips'] / steps:.1%})" in text
    assert "million proposals per second" in text


def test_a_block_goes_on_with_new_data():
    """Catches a walk that compares proposals with log p under old data, or is left where the new density is zero."""

    def log_prob(y, a):
        return -0.5 * a * y[0] * y[0] if y[0] < 10.0 * a else -np.inf

    def gradient(y, out, a):
        out[0] = -a * y[0]

    def build(a):
        return block.given(a)

    block = Density(1, log_prob, gradient, data=1.0, scale=[1.0])
    drawn = {"a": lambda x, parameters, generator: 1.0 + generator.random()}
    run = bouncy.sample(bouncy.Within(build, drawn, {"a": 1.0}), "metropolis", **QUICK)
    expected = -0.5 * run.parameters["a"] * run.draws[..., 0] ** 2
    np.testing.assert_allclose(run.log_prob, expected, rtol=1e-12)
    zero = {"a": lambda x, parameters, generator: -1.0}
    with pytest.raises(TargetError, match=r"log p is -inf where the particle is"):
        bouncy.sample(bouncy.Within(build, zero, {"a": 1.0}), "metropolis", **QUICK)
