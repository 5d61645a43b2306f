"""keep="path": the flips of a run, and the states that they lead to."""

import numpy as np
import pytest

import bouncy
from bouncy.run.driver import Driver
from bouncy.run.endings import NoFlipWarning
from bouncy.samplers import names
from conftest import base_seed

# Loops that keep the path are compiled for one sampler of each family here, for the others in the long tests.
FAMILIES = ("bps-gaussian", "gibbs", "hmc")
# Lanes of a ladder trade places just when a draw was taken.
SAMPLERS = sorted({*names()} - {"auto", "tempered", "metropolis-swap"})
SAMPLERS = [name if name in FAMILIES else pytest.param(name, marks=pytest.mark.slow) for name in SAMPLERS]


@pytest.fixture(scope="module")
def target():
    return bouncy.MRF.random(5, sigma_M=0.4, sigma_r=0.3, seed=3)


def _both(target, sampler="bps-gaussian", extra=0, **options):
    """Return the same run twice: with its path, and with its draws."""
    options = {"chains": 2, "draws": 60, "warmup": 20, "seed": base_seed()} | options
    runs = [bouncy.sample(target, sampler, keep=keep, **options) for keep in ("path", "draws")]
    return [run.extend(extra) if extra else run for run in runs]


def _grid(run):
    return run.duration * np.arange(1, run.draws.shape[1] + 1) / run.draws.shape[1]


def _check(path, drawn):
    """Check a path against the draws of the same run, and against itself."""
    assert path.draws.tobytes() == drawn.draws.tobytes()
    assert path.mean.tobytes() == drawn.mean.tobytes()
    assert path.log_prob.tobytes() == drawn.log_prob.tobytes()
    # Just behind the grid: a flip at the very end of a sweep belongs to it, and times have rounding errors.
    times = np.minimum(_grid(path) + 1e-9, path.duration)
    assert (path.replay(times) == drawn.draws).all()
    assert (path.replay([0.0])[:, 0] == path.start).all() or any(f["time"][0] == 0.0 for f in path.flips if f.size)
    counts = np.zeros(path.target.d, np.int64)
    for flips in path.flips:
        assert (np.diff(flips["time"]) >= 0.0).all()
        assert flips.size == 0 or (flips["time"][0] >= 0.0 and flips["time"][-1] <= path.duration * (1 + 1e-12))
        counts += np.bincount(flips["site"], minlength=path.target.d)
    assert (counts == path.flips_per_site).all()
    np.testing.assert_allclose(_time_averages(path), path.path_mean, atol=1e-10)


def _time_averages(run):
    """Return the time averages of all spins, from the flips one by one."""
    total = np.zeros(run.target.d)
    for s, flips in zip(run.start.astype(float), run.flips, strict=True):
        last = np.zeros(run.target.d)
        for time, i in flips.tolist():
            total[i] += s[i] * (time - last[i])
            s[i], last[i] = -s[i], time
        total += s * (run.duration - last)
    return total / (run.duration * len(run.flips))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_paths_are_those_of_the_draws(target, sampler):
    """Catches a flip that is lost, doubled or at a wrong time: the replay has the bytes of the draws."""
    _check(*_both(target, sampler))


@pytest.mark.parametrize("options", [{"thin": 3}, {"chains": 1}, {"draws": 7, "extra": 53}, {"threads": 1}])
def test_paths_of_other_runs(target, options):
    """Catches a grid that forgets thinning, and a path that begins anew when a run is extended."""
    _check(*_both(target, **options))


def test_path_of_one_spin():
    """Catches indices that need a second site."""
    _check(*_both(bouncy.MRF(np.zeros((1, 1)), r=[0.2])))


def test_path_without_flips():
    """Catches an empty trail that is not understood."""
    frozen = bouncy.MRF(np.array([[0.0, -1e6], [-1e6, 0.0]]))
    with pytest.warns(NoFlipWarning):
        path, drawn = _both(frozen, initial=[1, 1])
    _check(path, drawn)
    assert [flips.size for flips in path.flips] == [0, 0]
    assert (path.replay([0.0, path.duration / 2]) == 1).all()


def test_path_of_an_interrupted_run(target, monkeypatch):
    """Catches flips that are ahead of the draws when a run is stopped in the middle of something."""
    take, rounds = Driver._take, []

    def interrupting(self, done):
        take(self, done)
        rounds.append(done.end)
        if len(rounds) == 4:
            self._interrupts.note()

    monkeypatch.setattr(Driver, "_take", interrupting)
    with pytest.warns(bouncy.InterruptedWarning):
        path = bouncy.sample(target, chains=2, draws=10**7, warmup=20, seed=base_seed(), keep="path")
    monkeypatch.undo()
    assert path.stopped_by == "interrupt"
    assert 0 < path.draws_per_chain < 10**7
    drawn = bouncy.sample(target, chains=2, draws=path.draws_per_chain, warmup=20, seed=base_seed())
    assert path.draws.tobytes() == drawn.draws.tobytes()
    assert sum(flips.size for flips in path.flips) == path.flips_per_site.sum()


def test_times_in_any_order(target):
    """Catches a replay that needs sorted times, and times outside of the path."""
    path, _ = _both(target)
    times = np.random.default_rng(base_seed()).uniform(0.0, path.duration, 50)
    together = path.replay(times)
    for k in (0, 17, 49):
        assert (together[:, k] == path.replay([times[k]])[:, 0]).all()
    for bad in (-0.1, path.duration * 1.01, np.nan):
        with pytest.raises(ValueError, match="times"):
            path.replay([bad])


def test_paths_must_have_been_kept(target):
    """Catches a silent empty answer where there is no path."""
    run = bouncy.sample(target, chains=1, draws=10, seed=0)
    for ask in (lambda: run.flips, lambda: run.start, lambda: run.replay([0.0])):
        with pytest.raises(AttributeError, match="keep='path'"):
            ask()
    with pytest.raises(ValueError, match="for spins"):
        bouncy.sample(bouncy.Gaussian([0.0], cov=[[1.0]]), draws=10, keep="path")
