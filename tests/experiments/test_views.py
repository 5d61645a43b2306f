"""The views of known series and chains, and their file."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bouncy.experiments import ledger, views
from bouncy.experiments.contenders import CONTENDERS
from bouncy.experiments.ledger import describe_machine
from bouncy.experiments.settings import ViewSettings, load_views
from bouncy.experiments.views import (
    CHAINS,
    autocorrelation,
    keep_views,
    measure_views,
    read_views,
    take_pace,
    take_view,
    write_views,
)
from conftest import base_seed
from experiments.in_process import in_process_pool
from experiments.made_up import make_views

pytestmark = pytest.mark.slow

SMALL = ViewSettings(
    d=10, sigma_M=0.1, sigma_r=0.0, travel_time=0.5, lag_sweeps=0.5, lags=20, states=2000, flips=2000, trace=50
)
each_chain = pytest.mark.parametrize("k", range(len(CHAINS)), ids=["-".join(chain) for chain in CHAINS])


def test_autocorrelation_of_a_known_series():
    """Catches a wrong normalisation, wrap-around between the ends, and a mean that is left in.

    The autocorrelation of 2e5 steps of x' = 0.8 x + noise is 0.8^k with standard errors below 0.006; at the fixed seed
    a false alarm (4 of them, five standard errors) has a chance below 1e-5.
    """
    noise = np.random.default_rng(base_seed()).standard_normal(200_000)
    x = np.empty_like(noise)
    x[0] = noise[0] / 0.6
    for k in range(1, x.size):
        x[k] = 0.8 * x[k - 1] + noise[k]
    found = autocorrelation(x + 50.0, 12)
    assert found.shape == (12,)
    assert found[0] == pytest.approx(1.0)
    assert abs(found - 0.8 ** np.arange(12)).max() < 0.03


def test_autocorrelation_of_short_and_constant_series():
    """Catches correlations that wrap around the end of a series, and a division by zero."""
    assert autocorrelation(np.array([1.0, -1.0, 0.0, 0.0]), 3) == pytest.approx([1.0, -0.5, 0.0])
    assert np.isnan(autocorrelation(np.ones(10), 3)).all()


@each_chain
def test_holding_times_are_in_sweeps(k):
    """Catches times in units of the clock, or of another clock, in place of sweeps.

    At sigma_M = 0.1 nearly all of the d attempted flips of a sweep are accepted, and half of them by heat bath: holding
    times are about 1.2/d and 2.1/d sweeps. Chance adds a tenth, or two fifths where the Gaussian clock is not refreshed
    and its rate depends on how it started. Units of the clocks differ from sweeps by factors of three and more.
    """
    _, view = take_view(k, SMALL, base_seed(), 1e-6, 2e-6)
    mean = SMALL.d * view.holding_times.mean()
    assert view.holding_times.shape == (SMALL.flips - 1,)
    assert view.holding_times.min() > 0.0
    assert (1.5 < mean < 2.7) if view.sampler == "gibbs" else (0.5 < mean < 2.4)


@each_chain
def test_the_distance_of_states_is_that_of_one_lag(k):
    """Catches states that are closer together or further apart than the pace of a sampler says.

    A state changes by every flip; half a sweep apart two of them differ by fewer than d/2 spins, half a thousandth of a
    sweep apart nearly all of them are the same.
    """
    _, far = take_view(k, SMALL, base_seed(), 1e-6, 2e-6)
    _, near = take_view(k, SMALL, base_seed(), 1e-9, 2e-6)
    assert far.autocorrelation[1] < 0.9
    assert near.autocorrelation[1] > 0.95
    assert far.magnetisation.shape == far.magnetisation_seconds.shape == (SMALL.trace,)
    assert far.magnetisation_seconds == pytest.approx(1e-6 * np.arange(1, SMALL.trace + 1))
    assert set(np.rint(SMALL.d * far.magnetisation)) <= set(range(-SMALL.d, SMALL.d + 1))


@pytest.mark.parametrize("k", [0, 3, 7])
def test_pace_is_cpu_time_per_sweep(monkeypatch, k):
    """Catches a pace per attempted flip or per call, by a clock on which an attempted flip takes a microsecond."""
    walkers, new_walker = [], views._new_walker

    monkeypatch.setattr(views, "_new_walker", lambda *which: walkers.append(new_walker(*which)) or walkers[0])
    monkeypatch.setattr(views.time, "process_time", lambda: 1e-6 * walkers[0].hits)
    number, pace = take_pace(k, SMALL, base_seed())
    assert number == k
    assert pace == pytest.approx(1e-6 * SMALL.d, rel=0.05)


def test_a_chain_that_is_stuck_ends(monkeypatch):
    """Catches an endless loop in a chain that never flips."""
    monkeypatch.setattr(views, "_PATIENCE", 2)
    frozen = ViewSettings(
        d=10, sigma_M=1e6, sigma_r=1e6, travel_time=0.5, lag_sweeps=0.5, lags=5, states=500, flips=200, trace=50
    )
    for k, chain in enumerate(CHAINS):
        _, view = take_view(k, frozen, base_seed(), 1e-6, 1e-6)
        assert (view.edition, view.sampler) == chain
        assert view.holding_times.size < 200


@pytest.mark.slow
def test_views_of_all_samplers(monkeypatch):
    """Catches a sampler without a view or with two, one of a ladder, and lags that differ within an edition."""
    monkeypatch.setattr(views, "single_threaded_pool", in_process_pool)
    found = measure_views(load_views("tiny"), 3, progress=False)
    shown = [(view.edition, view.sampler) for view in found.curves]
    assert len(shown) == len(set(shown))
    assert set(shown) == {(c.edition, c.sampler) for c in CONTENDERS} - {("ours", "tempered")}
    assert (found.d, found.sigma_M, found.sigma_r, found.seed) == (100, 0.1, 0.0, 3)
    for edition in ("published", "ours"):
        assert len({view.lag_seconds for view in found.curves if view.edition == edition}) == 1
    assert all(view.autocorrelation.shape == (20,) for view in found.curves)
    assert all(view.lag_seconds > 0.0 for view in found.curves)


@pytest.fixture
def kept(tmp_path):
    """Return a file of views with settings SMALL."""
    write_views(tmp_path / "new" / "views.npz", make_views(), SMALL)
    return tmp_path / "new" / "views.npz"


def same(view, other):
    return all(np.array_equal(getattr(view, field), getattr(other, field)) for field in vars(view))


def test_views_are_read_back(kept):
    """Catches fields that are lost, rounded, or given to another sampler, and files that are left over."""
    found, written = read_views(kept, SMALL, 1711), make_views()
    assert (found.d, found.sigma_M, found.sigma_r, found.seed) == (SMALL.d, SMALL.sigma_M, SMALL.sigma_r, 1711)
    assert all(same(view, other) for view, other in zip(found.curves, written.curves, strict=True))
    assert [path.name for path in kept.parent.iterdir()] == ["views.npz"]
    with np.load(kept, allow_pickle=False) as file:
        origin = json.loads(str(file["origin"]))
    assert origin["seed"] == 1711
    assert origin["states"] == SMALL.states
    assert {name: origin[name] for name in describe_machine()} == describe_machine()


def test_views_of_another_origin_are_not_used(kept, monkeypatch):
    """Catches views of other settings, another seed or a faster machine in a report."""
    assert read_views(kept, replace(SMALL, flips=7), 1711) is None
    assert read_views(kept, SMALL, 1712) is None
    other = {**describe_machine(), "cores": "99"}
    monkeypatch.setattr(ledger, "describe_machine", lambda: other)
    assert read_views(kept, SMALL, 1711) is None


def test_damaged_views_are_not_used(kept, monkeypatch):
    """Catches an error, or wrong numbers, where bytes were lost or changed in the file."""
    whole = kept.read_bytes()
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        kept.write_bytes(whole[:size])
        assert read_views(kept, SMALL, 1711) is None
    for place in np.linspace(0, len(whole) - 1, 60).astype(int):
        kept.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        found = read_views(kept, SMALL, 1711)
        # A changed byte that is not looked at, such as a time stamp, does no harm.
        assert found is None or all(map(same, found.curves, make_views().curves))
    kept.write_bytes(whole)
    monkeypatch.setattr(views, "_MOST_BYTES", 1000)
    assert read_views(kept, SMALL, 1711) is None


def test_views_are_measured_when_they_must_be(kept, monkeypatch):
    """Catches views that are measured again although they are there, or that stay damaged."""
    asked = []
    monkeypatch.setattr(views, "measure_views", lambda *arguments: asked.append(arguments) or make_views())
    keep_views(kept.parent, SMALL, 1711, 2, False)
    assert asked == []
    kept.write_bytes(b"nothing")
    keep_views(kept.parent, SMALL, 1711, 2, False)
    assert asked == [(SMALL, 1711, 2, False)]
    keep_views(kept.parent, SMALL, 1711, 2, False)
    assert len(asked) == 1
