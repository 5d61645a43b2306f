"""`lanes=`: chains that share clocks give the same results on any executor, are stored, and have honest error bars."""

import numpy as np
import pytest
import scipy.sparse

import bouncy
from bouncy.run import remote
from bouncy.run.driver import restored_workers
from bouncy.workers.contract import flocks_of
from conftest import base_seed
from helpers.statistics import coverage_test, z_test
from run.test_executors import Inline
from storage.comparing import different
from storage.forged import rewrite

MODEL = bouncy.MRF.random(6, sigma_M=0.3, sigma_r=0.2, seed=3)
LATTICE = bouncy.MRF.ising((3, 4), coupling=0.25, field=0.1)
OPTIONS = {"chains": 20, "lanes": 8, "draws": 300, "warmup": 100, "seed": base_seed()}


def sample(target=MODEL, sampler="bps-gaussian", **options):
    return bouncy.sample(target, sampler, **{**OPTIONS, **options})


def same(run, other):
    assert different(run, other) == []


@pytest.fixture(autouse=True)
def own_memory():
    """Clear the templates that another test has left in this thread."""
    remote._own.__dict__.clear()


@pytest.fixture(scope="module")
def whole():
    """Return a run of flocks of 6, 7 and 7 chains, by one thread."""
    return sample(threads=1)


# --- the same bytes ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_executors_give_the_same_bytes(whole):
    """Catches flocks that share anything, and state, such as the number of lanes, that is not sent along."""
    same(sample(threads=2), whole)
    same(sample(executor=Inline(2)), whole)


def test_longer_runs_have_the_bytes_of_one(whole, tmp_path):
    """Catches state that is left behind where a run is extended, resumed, or read from a file."""
    short = sample(draws=100, checkpoint=tmp_path / "run")
    same(short.extend(draws=200), whole)
    same(bouncy.resume(tmp_path / "run", MODEL, total_draws=300), whole)
    short.save(tmp_path / "short.npz")
    same(bouncy.Run.load(tmp_path / "short.npz", MODEL).extend(draws=200, executor=Inline(2)), whole)


@pytest.mark.parametrize("suffix", ["npz", "nc"])
def test_saved_runs_are_loaded_whole(whole, suffix, tmp_path):
    """Catches a number of lanes that is not stored: rates would be judged by clocks that are counted many times."""
    if suffix == "nc":
        pytest.importorskip("h5netcdf")
    whole.save(tmp_path / f"run.{suffix}")
    loaded = bouncy.Run.load(tmp_path / f"run.{suffix}")
    same(loaded, whole)
    assert loaded._data.setup.lanes == 8
    assert loaded.diagnostics["hit_rate_z"] == pytest.approx(whole.diagnostics["hit_rate_z"], nan_ok=True)


def test_files_without_lanes_are_those_of_single_chains(tmp_path):
    """Catches files of version 0.2, in the same format, that can no longer be read."""
    run = sample(chains=3, lanes=1)
    run.save(tmp_path / "run.npz")
    rewrite(tmp_path / "run.npz", lambda header, arrays: header.pop("lanes"))
    loaded = bouncy.Run.load(tmp_path / "run.npz", MODEL)
    same(loaded, run)
    same(loaded.extend(draws=10), run.extend(draws=10))


@pytest.mark.parametrize("lanes", [[7, 6, 7], [8, 7, 7], [6, 7, 8], [6, 7, 6]])
def test_flocks_of_other_sizes_are_refused(whole, lanes, tmp_path):
    """Catches numbers of lanes that each could be, and by which draws would go to other chains, or to none."""
    whole.save(tmp_path / "run.npz")
    rewrite(tmp_path / "run.npz", lambda header, arrays: arrays["state.lanes"][:, 0].__setitem__(slice(None), lanes))
    with pytest.raises(ValueError, match=r"carries . chains"):
        restored_workers(bouncy.Run.load(tmp_path / "run.npz", MODEL)._data)


@pytest.mark.parametrize(("chains", "keep"), [("hmc", "draws"), ("bps-gaussian", "path")])
def test_stored_lanes_that_cannot_be_are_refused(chains, keep, tmp_path):
    """Catches a file of a single chain that asks for lanes where there are none: its loop would not compile."""
    sample(MODEL, chains, chains=1, lanes=1, draws=20, keep=keep).save(tmp_path / "run.npz")
    rewrite(tmp_path / "run.npz", lambda header, arrays: header.update(lanes=4))
    with pytest.raises(bouncy.RunFileError, match="lanes is 4, but"):
        bouncy.Run.load(tmp_path / "run.npz", MODEL)


# --- who shares a clock -----------------------------------------------------------------------------------------------


def test_eight_chains_share_a_clock_by_default():
    """Catches another default; the chains that share a clock have the same hits, and others do not."""
    for chains, lanes in ((7, 1), (8, 8), (40, 32)):
        run = sample(chains=chains, lanes=None, draws=20)
        assert run._data.setup.lanes == lanes
        hits = [int(batches.closed[0]["events"][0]) for batches in run._data.records.batches]
        for flock in flocks_of(chains, lanes):
            assert len({hits[k] for k in flock}) == 1
        assert len(set(hits)) > 1 or chains == 8
    assert sample(chains=20, lanes=None, draws=5)._data.setup.lanes == 20


def test_one_lane_is_a_clock_for_each_chain():
    """Catches results of single chains that depend on lanes."""
    same(sample(chains=4, lanes=1), sample(chains=4, lanes=None))
    same(sample(chains=4, lanes=1), sample(chains=4, lanes=None, threads=1))
    assert sample(chains=9, lanes=1)._data.setup.lanes == 1


def test_what_cannot_share_a_clock_does_not_by_default():
    """Catches a default that refuses what worked without lanes."""
    for target, sampler, options in (
        (MODEL, "hmc", {}),
        (MODEL, "bps-gaussian", {"keep": "path"}),
        (bouncy.Polynomial({(0, 1, 2): 0.4}), "gibbs", {}),
        (bouncy.TruncatedGaussian([0.0, 0.5], cov=np.eye(2), lower=0.0), "bps", {}),
    ):
        run = bouncy.sample(target, sampler, chains=8, draws=20, warmup=5, seed=1, **options)
        assert run._data.setup.lanes == 1


def _field(x, parameters, generator):
    return generator.normal(x.sum(), 1.0)


@pytest.mark.parametrize(
    ("target", "sampler", "options", "reason"),
    [
        (MODEL, "hmc", {}, "the clock of hmc depends on what flips cost"),
        (MODEL, "bps-gaussian", {"keep": "path"}, "keep='path' is for chains with clocks of their own"),
        (bouncy.Polynomial({(0, 1, 2): 0.4}), "gibbs", {}, "Polynomial computes the cost of one state"),
        (
            bouncy.Within(lambda h: bouncy.MRF(np.zeros((2, 2)), -h * np.ones(2)), {"h": _field}, {"h": 0.0}),
            "gibbs",
            {},
            "a block of a scheme has another target in each chain",
        ),
        (
            bouncy.TruncatedGaussian([0.0], cov=[[1.0]], lower=0.0),
            "bps",
            {},
            "TruncatedGaussian is sampled by chains with clocks of their own",
        ),
    ],
    ids=["hmc", "path", "polynomial", "within", "continuous"],
)
def test_refusals_give_the_reason(target, sampler, options, reason):
    """Catches lanes that are ignored, and an error from the depths of the compiler."""
    with pytest.raises(ValueError, match=f"lanes is 4, but {reason}.*pass lanes=1"):
        bouncy.sample(target, sampler, chains=8, lanes=4, **options)


@pytest.mark.parametrize("lanes", [0, -1, 2.5])
def test_numbers_of_lanes_are_whole_and_positive(lanes):
    """Catches a flock without chains."""
    with pytest.raises((ValueError, TypeError), match="lanes"):
        sample(lanes=lanes)


@pytest.mark.parametrize(("chains", "lanes"), [(1, 1), (7, 7), (8, 3), (20, 8), (33, 32), (100, 32)])
def test_flocks_are_alike_in_size(chains, lanes):
    """Catches chains that are left out, and a last flock with nearly nothing in it."""
    flocks = flocks_of(chains, lanes)
    sizes = [len(flock) for flock in flocks]
    assert [k for flock in flocks for k in flock] == list(range(chains))
    assert len(flocks) == -(-chains // lanes)
    assert max(sizes) <= lanes
    assert max(sizes) - min(sizes) <= 1


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [MODEL, LATTICE], ids=["dense", "sparse"])
@pytest.mark.parametrize("sampler", [pytest.param("bps-exponential", marks=pytest.mark.slow), "gibbs"])
def test_results_fit_together(target, sampler):
    """Catches draws of other chains than their log p, and lanes that only fill a row among counts and sums."""
    run = sample(target, sampler, thin=2, draws=70)
    np.testing.assert_allclose(run.log_prob, target.log_prob(run.draws), rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.magnetisation, run.draws.mean(axis=2), rtol=0, atol=1e-14)
    assert run.draws.shape == (20, 70, target.d)
    assert len({chain.tobytes() for chain in run.draws}) == 20
    assert run.flips_per_site.sum() == run.diagnostics["flips"]
    np.testing.assert_array_equal(np.diag(run.pair_mean), 1.0)
    exact = bouncy.exact(target)
    # 1400 draws: 6 standard errors of independent ones are 0.16.
    np.testing.assert_allclose(run.mean, exact.mean, rtol=0, atol=0.16)
    np.testing.assert_allclose(run.pair_mean, exact.pair_mean, rtol=0, atol=0.16)


def test_runs_end_at_a_standard_error():
    """Catches a goal that looks at one chain of a flock, or counts a clock's hits for each of its chains."""
    run = sample(draws=None, until_se=0.002)
    assert run.stopped_by == "until_se"
    assert 0.001 < run.mean_se.max() <= 0.002


def test_seconds_are_those_of_a_chain():
    """Catches the time of a flock taken for that of one chain, 8 times as long, or too short for what was asked."""
    sample(chains=16)  # compiled
    run = sample(chains=16, draws=None, seconds=0.03, keep="means")
    assert run.stopped_by == "seconds"
    assert 0.9 * 0.03 < run._data.cpu_seconds / 16 < 2 * 0.03
    longer = run.extend(seconds=0.02)
    assert 0.9 * 0.02 < (longer._data.cpu_seconds - run._data.cpu_seconds) / 16 < 2.5 * 0.02


def test_chains_begin_where_they_are_told_to_and_stuck_ones_are_noticed():
    """Catches starts in another order, and modes that chains never leave but seem to agree about, on one clock."""
    magnet = bouncy.MRF.ising((3, 4), coupling=0.8)
    modes = np.repeat(np.where(np.arange(20) % 3 == 0, 1, -1)[:, None], magnet.d, axis=1)
    run = sample(magnet, "bps-gaussian", initial=modes, draws=200)
    assert (run.draws == modes[:, None]).mean() > 0.99
    for words in ("chains disagree: R-hat of magnetisation", "chains sit in different modes"):
        assert any(words in text for text in run.diagnostics["warnings"])
    together = sample(magnet, "bps-gaussian", initial=np.ones((20, 12), np.int8), draws=200)
    assert not any("different modes" in text for text in together.diagnostics["warnings"])
    assert together.diagnostics["rhat"]["magnetisation"] < 1.5 < run.diagnostics["rhat"]["magnetisation"]


@pytest.mark.parametrize("size", [1e4, 12_345_678.9, 98_765_432_109.8])
def test_huge_couplings_that_cancel_leave_what_is_small(size):
    """Catches costs in single precision that are believed where couplings drown the field of a site.

    Three sites that are always equal pull another one in opposite directions. Its mean is seen to 0.05.
    """
    M = np.triu(np.full((4, 4), -4.0 * size), 1)
    M[0, 1:] = size * np.array([1.7320508, -0.4142136, -1.3178372])
    target = bouncy.MRF(scipy.sparse.csr_array(M + M.T), [0.4, 0.0, 0.0, 0.0])
    run = sample(target, "gibbs", initial=[1, 1, 1, 1], draws=10_000)
    assert (run.draws[..., 1:] == 1).all()
    z_test(run.draws[..., 0].mean(axis=1), -np.tanh(0.4), detect=0.05).check()


def test_log_prob_of_a_state_is_one_number():
    """Catches log p added up over flips, whose rounding makes ranks tell chains apart that are in the same state."""
    run = sample(bouncy.MRF.ising((3, 4), coupling=0.7, field=0.1), "metropolis", initial=np.ones(12, np.int8))
    numbers, place = np.unique((run.draws.reshape(-1, 12) > 0) @ (1 << np.arange(12)), return_inverse=True)
    log_prob = run.log_prob.ravel()
    assert 20 < numbers.size < 2000
    assert all(np.ptp(log_prob[place == k]) == 0.0 for k in range(numbers.size))


# --- error bars -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["bps-gaussian", "bps-exponential"])
def test_rates_of_shared_clocks_are_judged_by_clocks(sampler):
    """Catches hits of a clock that are counted once for each of its 8 chains, which makes scores 2.8 times too large.

    Scores of bounces are standard normal, those of hits are smaller, as what only refreshments change is allowed for.
    So the sum of the squares of 40 is a chi-square of 40 degrees at most. Above 104 it is with probability 1e-7; sums
    that are 8 times too large are below it with probability 2e-5.
    """
    scores = np.array(
        [
            [run.diagnostics[name] for name in ("hit_rate_z", "bounce_rate_z")]
            for run in (
                sample(LATTICE, sampler, chains=32, lanes=8, draws=300, warmup=0, keep="means", pairs="none", seed=seed)
                for seed in range(base_seed(), base_seed() + 40)
            )
        ]
    )
    assert np.isfinite(scores).all()
    squares = (scores**2).sum(axis=0)
    assert (squares < 104.0).all()
    assert squares[1] > 9.0  # below with probability 7e-8
    assert (np.abs(scores.mean(axis=0)) < 5.3 / np.sqrt(40)).all()


COVERED = {
    "dense": bouncy.MRF.random(6, sigma_M=0.4, sigma_r=0.4, seed=2),
    "sparse": bouncy.MRF.ising((2, 4), coupling=0.25, field=0.1),
}


def _covered(target, sampler, replications):
    """Return which intervals of all runs cover the truth, (run, k), by the kind of estimate."""
    exact = bouncy.exact(target)
    pairs = np.triu_indices(target.d, 1)
    covered = {"mean": [], "path_mean": [], "pair_mean": []}
    for k in range(replications):
        run = bouncy.sample(target, sampler, chains=64, draws=60, warmup=30, seed=base_seed() + k, threads=1)
        assert run._data.setup.lanes == 32
        for kind, rows in covered.items():
            low, high = run.interval(kind)
            truth = exact.mean
            if kind == "pair_mean":
                low, high, truth = low[pairs], high[pairs], exact.pair_mean[pairs]
            rows.append((low <= truth) & (truth <= high))
    return {kind: np.array(rows) for kind, rows in covered.items()}


@pytest.mark.slow
def test_intervals_of_chains_that_share_clocks_cover():
    """Catches lanes that move together, which makes error bars too small: 120 runs of 64 chains from random starts.

    Coverage between 91 and 98 %: as in `tests/law/test_coverage.py`, an error bar wrong by a factor 0.75 or 1.3 always
    leaves the band. Two clocks with 32 lanes that were all the same would make it six times too small.
    """
    for kind, covered in _covered(COVERED["dense"], "bps-gaussian", 120).items():
        assert 0.91 <= covered.mean() <= 0.98, (kind, covered.mean())


@pytest.mark.slow
@pytest.mark.parametrize(("storage", "sampler"), [("dense", "bps-gaussian"), ("sparse", "bps-exponential")])
def test_intervals_of_chains_that_share_clocks_cover_closely(storage, sampler):
    """Catches error bars that are off by 10 %: coverage between 91.5 and 98 % over 400 runs."""
    for kind, covered in _covered(COVERED[storage], sampler, 400).items():
        coverage_test(covered, 0.95, 0.915, 0.98, alpha=5e-3, name=f"{kind} of {storage}").check()
