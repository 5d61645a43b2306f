"""`sample` and `Run`: reproducibility, estimators on the path, bad input, chains that cannot move."""

import contextlib
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bouncy
from bouncy.recorders.batches import Batches
from bouncy.recorders.contract import BOUNCES
from bouncy.results import as_run
from bouncy.run.endings import NoFlipWarning
from bouncy.run.pool import Done, Threads
from bouncy.samplers import names
from bouncy.samplers.contract import NotErgodicWarning
from bouncy.workers import paths, spins
from bouncy.workers.spins import SpinWorker

# Random scans differ from systematic ones by their clocks alone, which have tests of their own.
# Ladders have tests of their own, and move where these are stuck.
SAMPLERS = sorted(
    name for name in names() if not name.endswith("-random") and name not in ("auto", "tempered", "metropolis-swap")
)


@pytest.fixture(scope="module")
def target():
    return bouncy.MRF.random(6, sigma_M=0.3, sigma_r=0.2, seed=3)


def _everything(run):
    parts = [run.draws, run.log_prob, run.magnetisation, run.mean, run.mean_se, run.path_mean, run.path_mean_se]
    parts += [run.pair_mean, run.pair_mean_se, run.path_pair_mean, run.path_pair_mean_se]
    return [np.ascontiguousarray(part).tobytes() for part in parts]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_seed_fixes_every_byte_whatever_the_number_of_threads(target, sampler):
    """Catches randomness shared between chains and results that depend on scheduling."""
    runs = [bouncy.sample(target, sampler, chains=3, draws=200, seed=5, threads=n) for n in (1, 3)]
    assert _everything(runs[0]) == _everything(runs[1])
    other = bouncy.sample(target, sampler, chains=3, draws=200, seed=6)
    assert _everything(runs[0])[0] != _everything(other)[0]
    assert (runs[0].draws[0] != runs[0].draws[1]).any(), "the chains must not share a seed"


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("thin", [1, 3])
def test_extended_run_equals_one_long_run(target, sampler, thin):
    """Catches an accumulator reset at the edge of a call and a generator that starts again."""
    whole = bouncy.sample(target, sampler, chains=2, draws=210, warmup=50, thin=thin, seed=1)
    parts = bouncy.sample(target, sampler, chains=2, draws=7, warmup=50, thin=thin, seed=1)
    before = _everything(parts)
    longer = parts.extend(draws=200).extend(draws=3)
    assert _everything(whole) == _everything(longer)
    assert whole.diagnostics["hits"] == longer.diagnostics["hits"]
    assert (whole._data.sweeps, whole._data.begun) == (longer._data.sweeps, longer._data.begun)
    assert _everything(as_run(parts._data)) == before, "an extension must leave the shorter run as it was"


def test_chains_differ(target):
    """Catches two chains with the same random numbers: they would agree whatever the target is."""
    run = bouncy.sample(target, chains=4, draws=50, initial=np.ones(target.d), seed=0)
    assert len({chain.tobytes() for chain in run.draws}) == 4


def test_seed_of_a_run_without_one_repeats_it(target):
    """Catches a run that cannot be repeated because its seed is not known."""
    first = bouncy.sample(target, chains=2, draws=20)
    assert _everything(bouncy.sample(target, chains=2, draws=20, seed=first.seed)) == _everything(first)


@pytest.mark.parametrize(
    "sampler", [name if name == "bps-gaussian" else pytest.param(name, marks=pytest.mark.slow) for name in SAMPLERS]
)
def test_edges_agree_with_all_pairs(sampler):
    """Catches an edge that is counted twice, or under another edge's number; what records does not see the sampler."""
    target = bouncy.MRF.ising((3, 4), coupling=0.3, field=0.1)
    every = bouncy.sample(target, sampler, chains=2, draws=50, seed=2, pairs="all")
    edges = bouncy.sample(target, sampler, chains=2, draws=50, seed=2, pairs="edges")
    pattern = target.edges().toarray().astype(bool)
    for name in ("pair_mean", "path_pair_mean", "pair_mean_se", "path_pair_mean_se"):
        sparse = getattr(edges, name)
        np.testing.assert_allclose(sparse.toarray()[pattern], getattr(every, name)[pattern], atol=1e-12)
        assert sparse.nnz == pattern.sum()


def test_draws_and_scalar_traces_agree(target):
    """Catches a draw stored under the wrong time: log_prob and magnetisation are recomputed from the states."""
    run = bouncy.sample(target, chains=2, draws=300, seed=0, thin=2)
    np.testing.assert_allclose(run.log_prob, target.log_prob(run.draws), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(run.magnetisation, run.draws.mean(axis=2))
    assert run.draws.dtype == np.int8
    assert set(np.unique(run.draws)) == {-1, 1}


def test_magnetisation_does_not_overflow():
    """Catches a sum of spins kept in int8: 300 aligned spins."""
    run = bouncy.sample(bouncy.MRF(np.zeros((300, 300)), r=-2.0), chains=1, draws=5, seed=0)
    assert (run.magnetisation > 0.8).all()


def test_means_without_states_are_the_same_means(target):
    """Catches means that depend on stored states."""
    full = bouncy.sample(target, draws=100, seed=4)
    lean = bouncy.sample(target, draws=100, seed=4, keep="means")
    assert lean.draws.shape == (4, 0, 6)
    assert lean.mean.tobytes() == full.mean.tobytes()
    assert lean.diagnostics["ess"]["log_prob"] == full.diagnostics["ess"]["log_prob"]
    assert "sites" not in lean.diagnostics["ess"]


def test_constant_sites_are_called_constant(capsys):
    """Catches ESS = N, or a bare NaN, for a site that never moves."""
    r = np.array([-40.0, 0.1, 0.2])
    run = bouncy.sample(bouncy.MRF(np.zeros((3, 3)), r), chains=2, draws=200, seed=0)
    assert run.diagnostics["constant_sites"].tolist() == [0]
    assert run.diagnostics["ess"]["sites"].mask.tolist() == [True, False, False]
    assert np.isfinite(run.diagnostics["ess"]["worst_site"])
    print(run.summary())
    printed = capsys.readouterr().out
    assert "constant" in printed
    assert "nan" not in printed


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("scale", [60.0, 1e300])
def test_run_without_a_possible_flip_ends_and_warns(sampler, scale):
    """Catches a loop that waits for a flip: all are refused, and the run must stop at its time."""
    target = bouncy.MRF(-scale * (np.ones((4, 4)) - np.eye(4)))
    with pytest.warns(NoFlipWarning, match="no flip"):
        run = bouncy.sample(target, sampler, draws=20, initial=np.ones(4), seed=0)
    assert run.diagnostics["flips"] == 0
    assert run.diagnostics["hits"] > 0
    assert run.diagnostics["ess"]["log_prob"] == "constant"
    assert (run.draws == 1).all()
    assert any("no flip" in text for text in run.diagnostics["warnings"])


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("r", [0.0, 0.7])
def test_one_spin(sampler, r):
    """Catches code that needs two sites; E[s] = -tanh r."""
    periodic = sampler == "metropolis" and r == 0.0
    with pytest.warns(NotErgodicWarning) if periodic else contextlib.nullcontext():
        run = bouncy.sample(bouncy.MRF([[0.0]], r), sampler, draws=2000, seed=1)
    np.testing.assert_allclose(run.mean, -np.tanh(r), atol=1e-12)
    # A periodic chain has an error bar of zero, or next to nothing.
    assert abs(run.path_mean[0] + np.tanh(r)) <= 5 * run.path_mean_se[0] + 1e-12


@pytest.mark.slow
def test_rate_scores_are_standard_normal_scores(target):
    """Catches rates that drift from their closed forms; |z| > 5 has probability 6e-7 for each."""
    for sampler in SAMPLERS:
        for d in (1, 2, 6, 150):
            report = bouncy.sample(bouncy.MRF.random(d, seed=d), sampler, draws=400, seed=d, pairs="all").diagnostics
            assert abs(report["hit_rate_z"]) < 5
            if sampler.startswith("bps"):
                assert abs(report["bounce_rate_z"]) < 5
            else:
                assert np.isnan(report["bounce_rate_z"])


@pytest.mark.parametrize("draws", [1, 2, 3, 4, 7])
def test_tiny_runs_say_what_they_do_not_know(target, draws, capsys):
    """Catches a crash, a warning or a bare NaN when there is too little to estimate an error from."""
    run = bouncy.sample(target, chains=1, draws=draws, warmup=0, seed=0)
    print(run.summary())
    assert "nan" not in capsys.readouterr().out
    assert np.isnan(run.mean_se).all() == (draws == 1)


@pytest.mark.slow
def test_rates_are_not_judged_from_a_few_events():
    """Catches a false alarm about the clock in runs too short to have a rate: 30 runs of each sampler."""
    nearly_flat = bouncy.MRF(np.zeros((6, 6)), 0.01)
    for sampler in SAMPLERS:
        for seed in range(10):
            for draws in (1, 2, 4):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", NotErgodicWarning)  # no flip may be refused in so short a run
                    run = bouncy.sample(nearly_flat, sampler, chains=1, draws=draws, warmup=0, seed=seed)
                found = run.diagnostics["warnings"]
                assert not any("bug" in text for text in found)
                assert any("too few" in text for text in found) == (run.diagnostics["batches"] < 16)


def test_clock_that_never_bounces_is_called_a_bug(target):
    """Catches a rule about few events that also excuses a clock which makes none."""
    run = bouncy.sample(target, draws=200, seed=0)

    def still(batch):
        return {**batch, "events": np.where(np.arange(5) == BOUNCES, 0.0, batch["events"])}

    data = run._data
    records = data.records.shared()
    records.batches = [Batches(one.most, [still(batch) for batch in one.closed]) for one in records.batches]
    broken = as_run(replace(data, records=records, open=[still(batch) for batch in data.open]))
    assert broken.diagnostics["bounce_rate_z"] == -np.inf
    assert any("bounce_rate_z" in text for text in broken.diagnostics["warnings"])


@pytest.mark.parametrize("keep", ["draws", "means"])
def test_chains_stuck_in_different_states_are_noticed(keep):
    """Catches error bars that look fine because every chain agrees with itself."""
    run = bouncy.sample(bouncy.MRF.ising((6, 6), coupling=-0.9), draws=500, seed=2, keep=keep)
    assert any("chains disagree about the means" in text for text in run.diagnostics["warnings"])


def test_chains_that_agree_give_no_warning():
    """Catches a disagreement found by chance: 40 runs, false alarms below 4e-3 in all."""
    for seed in range(40):
        run = bouncy.sample(bouncy.MRF.random(20, sigma_M=0.1, seed=seed), draws=200, seed=seed, pairs="none")
        assert not any("about the means" in text for text in run.diagnostics["warnings"])


def test_results_cannot_be_changed_by_accident(target):
    """Catches an array that is handed out and kept: doubling it would change the run."""
    run = bouncy.sample(target, draws=50, seed=0)
    for name in ("mean", "mean_se", "path_mean", "pair_mean", "pair_mean_se", "path_pair_mean"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(run, name)[...] = 0.0


@pytest.mark.parametrize("keep", ["draws", "means", "path"])
def test_extensions_of_a_run_are_independent(target, keep):
    """Catches two runs that share arrays which one of them changes, or rows that the second writes over."""
    run = bouncy.sample(target, chains=2, draws=20, seed=0, keep=keep)
    before = _everything(run)
    long, short = run.extend(draws=30), run.extend(draws=10)
    assert _everything(short.extend(draws=20)) == _everything(long) == _everything(run.extend(draws=30))
    assert _everything(as_run(run._data)) == before


def test_spawned_seed_repeats_a_run(target):
    """Catches a `run.seed` that forgets where in a tree of seeds it came from."""
    child = np.random.SeedSequence(3).spawn(2)[1]
    first = bouncy.sample(target, chains=1, draws=20, seed=child)
    again = bouncy.sample(target, chains=1, draws=20, seed=first.seed)
    assert _everything(first) == _everything(again)
    assert _everything(first) != _everything(bouncy.sample(target, chains=1, draws=20, seed=3))


def test_summary_prints_a_table(target, capsys):
    """Catches a summary that hides what a user needs."""
    run = bouncy.sample(target, draws=100, seed=0)
    print(run.summary())
    text = capsys.readouterr().out
    for word in ("bps-gaussian", "mean", "se", "ess", "rhat", "log prob", "attempted flips", "hit rate z"):
        assert word in text
    large = bouncy.sample(bouncy.MRF.ising((8, 8), 0.2), draws=50, seed=0)
    print(large.summary())
    assert "44 more sites" in capsys.readouterr().out


def test_warnings_are_given_for_short_batches():
    """Catches error bars from batches shorter than the autocorrelation time, passed over in silence."""
    run = bouncy.sample(bouncy.MRF.ising((12, 12), 0.5), chains=2, draws=100, warmup=0, seed=0)
    assert any("batches of" in text for text in run.diagnostics["warnings"])


def test_pairs_that_were_not_recorded_are_refused():
    """Catches zeros returned for what was never measured."""
    run = bouncy.sample(bouncy.MRF.ising((8, 8), 0.2), draws=10, seed=0)
    with pytest.raises(AttributeError, match="pairs='all'"):
        run.pair_mean  # noqa: B018


def test_arviz_tree(target):
    """Catches wrong dimensions or a lost dtype."""
    pytest.importorskip("xarray")
    run = bouncy.sample(target, draws=30, seed=0)
    tree = run.to_arviz()
    assert tree["posterior"]["s"].dims == ("chain", "draw", "site")
    assert (tree["posterior"]["s"].values == run.draws).all()
    assert tree["posterior"]["s"].dtype == np.int8
    np.testing.assert_array_equal(tree["sample_stats"]["lp"].values, run.log_prob)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"sampler": "nuts"}, ValueError, "bps-gaussian"),
        ({"sampler": 3}, TypeError, "BPS"),
        ({"draws": 0}, ValueError, "draws"),
        ({"draws": -5}, ValueError, "draws"),
        ({"draws": 2.5}, TypeError, "draws"),
        ({"chains": 0}, ValueError, "chains"),
        ({"warmup": -1}, ValueError, "warmup"),
        ({"thin": 0}, ValueError, "thin"),
        ({"threads": 0}, ValueError, "threads"),
        ({"seed": -1}, ValueError, "seed"),
        ({"seed": "x"}, TypeError, "seed"),
        ({"pairs": "some"}, ValueError, "pairs"),
        ({"keep": "paths"}, ValueError, "keep"),
        ({"keep": np.ones(2)}, ValueError, "keep"),
        ({"sampler": bouncy.BPS}, TypeError, "BPS"),
        ({"initial": np.zeros(6)}, ValueError, "initial"),
        ({"initial": np.ones(5)}, ValueError, "initial"),
        ({"initial": np.ones((3, 6))}, ValueError, "initial"),
    ],
)
def test_bad_arguments_are_named(target, arguments, error, words):
    """Catches a silent fallback: the message names the argument or what to use instead."""
    with pytest.raises(error, match=words):
        bouncy.sample(target, **arguments)


def test_target_must_be_a_target():
    """Catches an obscure failure deep inside when a bare matrix is passed."""
    with pytest.raises(TypeError, match=r"bouncy\.MRF"):
        bouncy.sample(np.zeros((3, 3)))


@pytest.mark.parametrize("refreshment", [-0.1, float("nan"), float("inf"), 1e9, 1e300])
def test_bad_refreshment_is_refused(refreshment):
    """Catches a clock that never reaches its next refreshment, or never leaves it."""
    with pytest.raises(ValueError, match="refreshment"):
        bouncy.BPS("gaussian", refreshment=refreshment)


def test_unknown_augmentation_is_refused():
    """Catches a silent default."""
    with pytest.raises(ValueError, match="exponential, gaussian"):
        bouncy.BPS("laplace")
    with pytest.raises(ValueError, match="exponential, gaussian"):
        bouncy.BPS(["gaussian"])


def test_zero_refreshment_warns_and_is_reducible():
    """Catches a default that hides refreshment: without it a flat target shows 2d of the 2^d states."""
    with pytest.warns(NotErgodicWarning, match="not ergodic"):
        sampler = bouncy.BPS("gaussian", refreshment=0.0)
    flat = bouncy.MRF(np.zeros((5, 5)))
    run = bouncy.sample(flat, sampler, chains=1, draws=4000, seed=0)
    assert len(np.unique(run.draws[0], axis=0)) <= 10
    mixed = bouncy.sample(flat, "bps-gaussian", chains=1, draws=4000, seed=0)
    assert len(np.unique(mixed.draws[0], axis=0)) == 32
    assert run.diagnostics["refreshments"] == 0


def test_large_refreshment_does_not_hang(target):
    """Catches an endless loop when refreshments are far more frequent than hits."""
    run = bouncy.sample(target, bouncy.BPS("gaussian", refreshment=300.0), chains=1, draws=20, warmup=5, seed=0)
    assert run.diagnostics["refreshments"] > 1000


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_interrupt_stops_a_run_of_hours():
    """Catches a kernel that does not come back to Python; a busy machine is given thirty seconds for what takes one."""
    program = textwrap.dedent(
        """
        import bouncy, sys
        target = bouncy.MRF.ising((64, 64), 0.3)
        bouncy.sample(target, draws=2, warmup=0, seed=0)
        print("ready", flush=True)
        run = bouncy.sample(target, draws=10**6, keep="means", seed=0, warmup=100)
        print(run.completed, run.stopped_by, run.log_prob.shape[1] > 0, flush=True)
        """
    )
    command = [sys.executable, "-c", program]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().strip() == "ready"
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    finally:
        process.kill()  # where it has not heard
    assert output.strip() == "False interrupt True"
    assert "InterruptedWarning: the run was interrupted after" in errors
    assert process.returncode == 0


def test_error_in_an_extension_leaves_the_run_as_it_was(target, monkeypatch):
    """Catches chains of different length after an error in the middle of an extension."""
    run = bouncy.sample(target, chains=2, draws=50, seed=9)
    before = _everything(run)
    original, calls = SpinWorker.advance, []

    def failing(self, sweeps, keep):
        calls.append(sweeps)
        if len(calls) > 6:
            raise KeyboardInterrupt
        return original(self, sweeps, keep)

    monkeypatch.setattr(SpinWorker, "advance", failing)
    with pytest.raises(KeyboardInterrupt):
        run.extend(draws=100000)
    monkeypatch.undo()
    assert _everything(as_run(run._data)) == before
    assert _everything(run.extend(draws=25)) == _everything(bouncy.sample(target, chains=2, draws=75, seed=9))


def test_chain_that_failed_before_an_interrupt_is_dropped(target, monkeypatch):
    """Catches a run that keeps a chain whose target failed, because it was interrupted before the next round ended."""

    def interrupted(self, workers, *_):
        self._interrupts.note()
        error = bouncy.TargetError("broken", "flip_cost", 0, workers[1].x[0])
        yield Done(workers[0].sweeps, {}, {workers[1]: error})

    with monkeypatch.context() as patch:
        patch.setattr(Threads, "advance", interrupted)
        with pytest.raises(bouncy.TargetError, match="broken") as caught:
            bouncy.sample(target, chains=3, draws=10, seed=0)
    rest = caught.value.run
    assert rest.stopped_by == "interrupt"
    whole = bouncy.sample(target, chains=3, draws=10, seed=0)
    assert rest.extend(draws=10).draws.tobytes() == whole.draws[[0, 2]].tobytes()


def test_no_thread_is_left_behind(target):
    """Catches worker threads that outlive the call."""
    before = threading.active_count()
    bouncy.sample(target, draws=10, seed=0)
    assert threading.active_count() <= before


def _own_frames():
    """Return the functions of this package on the stack of the present thread, innermost first."""
    frame, found = sys._getframe(), []
    while frame is not None:
        ours = Path(frame.f_code.co_filename).is_relative_to(Path(bouncy.__file__).parent)
        comprehension = frame.f_code.co_name.endswith("comp>")  # which has a frame before Python 3.12
        if ours and not comprehension:
            found.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return found


@pytest.mark.parametrize("kind", [spins, paths])
def test_few_frames_lie_between_a_call_and_the_compiled_loop(target, kind, monkeypatch):
    """Catches layers that nothing but a call passes through: a stack trace of a user should fit on a screen."""
    loop, submit, inside, outside = kind.advance, ThreadPoolExecutor.submit, [], []

    def watched_loop(*arguments):
        if threading.current_thread() is not threading.main_thread():
            inside.append(_own_frames())
        return loop(*arguments)

    def watched_submit(self, *arguments):
        outside.append(_own_frames())
        return submit(self, *arguments)

    monkeypatch.setattr(kind, "advance", watched_loop)
    monkeypatch.setattr(ThreadPoolExecutor, "submit", watched_submit)
    bouncy.sample(target if kind is spins else bouncy.Gaussian([0.0], cov=1.0), draws=20, seed=0)
    assert outside[0][-2] == "sample"  # after the decorator that knows the old names of keywords
    assert inside[0][-1] == "LoopWorker.advance"
    longest = max(outside, key=len)[::-1] + max(inside, key=len)[::-1] + ["advance"]
    assert len(longest) <= 8, " -> ".join(longest)
