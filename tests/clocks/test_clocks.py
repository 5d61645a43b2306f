"""Every clock against the paper's algorithm, its own contract, and states in which rounding could make it hang.

Clocks are found by looking through `bouncy.clocks`: a new file is tested without editing this one. Tests that need a
particle leave the scans out, and those that compare with the paper run for the billiards.
"""

from __future__ import annotations

import math
import zlib
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from bouncy._compile import kernel
from bouncy._dispatch import check_bounds, named_state, state_arrays
from bouncy._random import new_state
from bouncy.clocks import every_clock as all_clocks
from bouncy.clocks.by_address import linked
from bouncy.clocks.contract import Clock, fill, shift
from bouncy.clocks.exponential import _open_era
from bouncy.clocks.gaussian import GAUSSIAN, _derive_plane
from bouncy.targets.contract import flip_cost, init, on_flip
from bouncy.targets.mrf import MRF
from bouncy.tolls.budget import new_budget
from bouncy.tolls.contract import pay
from conftest import base_seed
from helpers.compiled_clocks import as_linked, fill_compiled, position_compiled, shift_compiled
from helpers.literal import BOUNCED, CROSSED, REFRESHED, Path, literal_bps
from helpers.statistics import z_test

SEED = base_seed()
DIMENSIONS = [1, 3, 7, 64, *(pytest.param(d, marks=pytest.mark.slow) for d in (2, 600))]
# State of a clock that holds its numbers of bounces and refreshments.
BOUNCES, REFRESHMENTS = 0, 1


def of_families(*families: str) -> pytest.MarkDecorator:
    chosen = [clock for clock in all_clocks() if clock.family in families]
    return pytest.mark.parametrize("clock", chosen, ids=[f"{clock.family}-{clock.name}" for clock in chosen])


every_clock = of_families("billiard", "trajectory", "scan")
every_particle = of_families("billiard", "trajectory")
every_billiard = of_families("billiard")


def states(*label: Any, n: int = 1) -> list[NDArray[np.uint64]]:
    """Return n independent generator states for a label."""
    sequence = np.random.SeedSequence([SEED, zlib.crc32(repr(label).encode())])
    return [new_state(child) for child in sequence.spawn(n)]


class Hits(NamedTuple):
    times: NDArray[np.float64]
    sites: NDArray[np.int32]


@kernel
def count_hits(clock, duration, rounds, times, sites, hits, sites_hit):
    """Run for `rounds` times `duration`, with the origin of time moved after each, and count the hits of each."""
    for k in range(rounds):
        reached = False
        while not reached:
            n, reached = fill(clock, duration, times, sites)
            hits[k] += n
            for j in range(n):
                sites_hit[sites[j]] += 1
        shift(clock, duration)


def hits_until(running: Any, t_stop: float, capacity: int = 1024, function: Any = fill_compiled) -> Hits:
    """Return all hits of a running clock up to t_stop."""
    clock = running if function is fill else as_linked(running)
    blocks: list[Hits] = []
    reached = False
    while not reached:
        block = Hits(np.empty(capacity), np.empty(capacity, np.int32))
        n, reached = function(clock, t_stop, *block)
        blocks.append(Hits(*(column[:n] for column in block)))
    return Hits(*(np.concatenate(column) for column in zip(*blocks, strict=True)))


def where(running: Any, d: int, t: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    z, w = np.empty(d), np.empty(d)
    position_compiled(running, t, z, w)
    return z, w


def until_half_way(path: Path) -> tuple[Path, float]:
    """Drop the last event and return the time half-way before it, where nothing depends on rounding."""
    kept = Path(path.kind[:-1], path.time[:-1], path.site[:-1], path.y, path.v, path.s, path.end)
    return kept, float(path.time[-2] + path.time[-1]) / 2


def flips_by_parts(target: MRF, hits: Hits, toll_state: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which hits a budget lets pass, starting from s = +1, through the interpreted parts of a sampler."""
    view, s, toll = target.view(), np.ones(target.d, np.int8), new_budget(toll_state)
    init(view, s)
    purse = toll.purse[0]
    passed = np.empty(hits.sites.size, np.bool_)
    with np.errstate(over="ignore"):
        for k, i in enumerate(hits.sites):
            passed[k], purse = pay(toll, purse, flip_cost(view, s, i), i)
            if passed[k]:
                s[i] = -s[i]
                on_flip(view, s, i)
    return passed


# --- against the paper's algorithm ------------------------------------------------------------------------------------


def assert_same_events(clock: Clock, d: int, rate: float, events: int, label: int, compiled: bool) -> None:
    clock_state, toll_state = states(clock.name, d, rate, label, n=2)
    target = MRF.random(d, sigma_M=0.5 / math.sqrt(d), sigma_r=0.3, seed=d)
    M, r = target.view().M, target.view().r
    twin, t_stop = until_half_way(
        literal_bps(
            M,
            r,
            clock.name,
            clock_state=clock_state.copy(),
            toll_state=toll_state.copy(),
            refreshment_rate=rate,
            events=events + 1,
            compiled=compiled,
        )
    )
    running = clock.start(d, rate, clock_state)
    hits = hits_until(running, t_stop)
    np.testing.assert_array_equal(hits.sites, twin.site[twin.at_wall])
    np.testing.assert_allclose(hits.times, twin.time[twin.at_wall], rtol=1e-9, atol=1e-9)
    assert running.count[BOUNCES] == np.sum(twin.kind == BOUNCED)
    assert running.count[REFRESHMENTS] == np.sum(twin.kind == REFRESHED)
    np.testing.assert_array_equal(flips_by_parts(target, hits, toll_state), twin.kind[twin.at_wall] == CROSSED)


@pytest.mark.parametrize("d", DIMENSIONS)
@every_billiard
def test_events_are_those_of_the_paper(clock, d):
    """Catches any wrong hit time, order of walls, reflection, bounce time or toll, without refreshment."""
    assert_same_events(clock, d, 0.0, events=10_000, label=0, compiled=d > 7)


@pytest.mark.slow
@pytest.mark.parametrize("d", DIMENSIONS)
@every_billiard
def test_events_are_those_of_the_paper_with_refreshment(clock, d):
    """Catches a refreshment that comes at the wrong time, keeps part of the state or draws in another order.

    A refreshment multiplies differences of rounding by two or three at small d, so 10^4 events are cut into many runs.
    """
    for label in range(100):
        assert_same_events(clock, d, 0.3, events=100, label=label, compiled=d > 7)


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("d", DIMENSIONS)
@every_billiard
def test_one_purse_and_free_walls_give_the_same_hits(clock, d, rate):
    """Catches a clock that draws another number of budgets than the paper: on a flat target the walls cost nothing."""
    (state,) = states(clock.name, d, rate)
    twin, t_stop = until_half_way(
        literal_bps(
            None, np.zeros(d), clock.name, clock_state=state.copy(), refreshment_rate=rate, events=100, compiled=True
        )
    )
    hits = hits_until(clock.start(d, rate, state), t_stop)
    assert np.all(twin.kind[twin.at_wall] == CROSSED)
    np.testing.assert_array_equal(hits.sites, twin.site[twin.at_wall])
    np.testing.assert_allclose(hits.times, twin.time[twin.at_wall], rtol=1e-9, atol=1e-9)


@every_billiard
def test_motion_does_not_depend_on_the_target(clock):
    """Catches a dependence of (|y|, sign(y) v) on the target in the paper's own algorithm, on which clocks rest."""
    d = 7
    clock_state, toll_state = states(clock.name, n=2)
    paths = [
        literal_bps(
            10 * strength * MRF.random(d, sigma_M=0.1, seed=1).view().M,
            np.full(d, strength),
            clock.name,
            clock_state=clock_state.copy(),
            toll_state=toll_state.copy(),
            refreshment_rate=0.0,
            events=2000,
            compiled=True,
        )
        for strength in (0.0, 0.5, 5.0)
    ]
    crossings = {int(np.sum(path.kind == CROSSED)) for path in paths}
    assert len(crossings) == 3
    for path in paths[1:]:
        np.testing.assert_array_equal(path.site, paths[0].site)
        np.testing.assert_allclose(path.time, paths[0].time, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("d", [1, 7, 65, 1000, 5000])
@every_billiard
def test_positions_are_those_of_the_paper(clock, d):
    """Catches a site left behind by the exponential clock's windows, or a wrong turn of the Gaussian plane."""
    (state,) = states(clock.name, d)
    flat = np.zeros(d)
    start = state.copy()
    running = clock.start(d, 0.0, state)
    for stop in (0.0, 3.1, 40.0, 200.0):  # the last in the second era of the exponential clock, for 65 and 1000
        twin = literal_bps(None, flat, clock.name, clock_state=start.copy(), duration=stop, compiled=True)
        hits_until(running, stop)
        z, w = where(running, d, stop)
        np.testing.assert_allclose(z, np.abs(twin.y), atol=1e-9)
        np.testing.assert_allclose(w, twin.s * twin.v, atol=1e-9)


# --- the contract -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 16, 65, 1000])
@every_clock
def test_states_are_within_their_bounds(clock, d):
    """Catches a state that is saved and then refused, as speeds that are measured from a drift that has no bounds."""
    (state,) = states(clock.name, d)
    running = clock.start(d, 0.0, state)
    for stop in np.arange(0.0, 500.0, 25.0):
        hits_until(running, stop)
        check_bounds(named_state("clock", running), "clock", running)


@every_clock
def test_interpreted_and_compiled_clocks_are_the_same(clock):
    """Catches code whose meaning numba changes: integer division, overflow, a type that is narrowed."""
    d = 7
    (state,) = states(clock.name)
    compiled = hits_until(clock.start(d, 0.3, state.copy()), 60.0)
    with np.errstate(all="ignore"):
        interpreted = hits_until(clock.start(d, 0.3, state.copy()), 60.0, function=fill)
    np.testing.assert_array_equal(interpreted.sites, compiled.sites)
    np.testing.assert_allclose(interpreted.times, compiled.times, rtol=1e-9)


@pytest.mark.parametrize("capacity", [1, 7, pytest.param(1024, marks=pytest.mark.slow)])
@pytest.mark.parametrize("d", [1, 64, *(pytest.param(d, marks=pytest.mark.slow) for d in (3, 500))])
@every_clock
def test_stops_leave_no_trace(clock, d, capacity):
    """Catches a run that depends on where it was cut into calls or on the size of the buffer: the bytes must agree."""
    (state,) = states(clock.name, d)
    t_end = 1000 / clock.hit_rate(d)
    expected = hits_until(clock.start(d, 0.2, state.copy()), t_end)
    stops = np.sort(np.append(np.random.default_rng([SEED, d]).uniform(0, t_end, 300), t_end))
    running = clock.start(d, 0.2, state.copy())
    parts = [hits_until(running, stop, capacity) for stop in stops]
    assert b"".join(part.times.tobytes() for part in parts) == expected.times.tobytes()
    assert b"".join(part.sites.tobytes() for part in parts) == expected.sites.tobytes()


@pytest.mark.parametrize("d", [1, 64, *(pytest.param(d, marks=pytest.mark.slow) for d in (3, 500))])
@every_clock
def test_moving_the_origin_of_time_leaves_no_trace(clock, d):
    """Catches a time that `shift` forgets. Runs are short because refreshments multiply differences of rounding."""
    rng = np.random.default_rng([SEED, d])
    t_end = min(100 / clock.hit_rate(d), 60.0)
    for label in range(8):
        (state,) = states(clock.name, d, label)
        expected = hits_until(clock.start(d, 0.2, state.copy()), t_end)
        running = clock.start(d, 0.2, state.copy())
        origin, times, sites = 0.0, [], []
        for stop in [*np.sort(rng.uniform(0, t_end, 30)), t_end]:
            part = hits_until(running, stop - origin, 7)
            times.append(part.times + origin)
            sites.append(part.sites)
            if rng.random() < 0.5:
                shift_compiled(running, stop - origin)
                origin = stop
        np.testing.assert_array_equal(np.concatenate(sites), expected.sites)
        # Each refreshment of a falling particle multiplies differences of rounding more than those of a billiard.
        atol = 1e-6 if clock.family == "trajectory" else 1e-9
        np.testing.assert_allclose(np.concatenate(times), expected.times, rtol=1e-9, atol=atol)


@pytest.mark.parametrize("d", [1, 64, *(pytest.param(d, marks=pytest.mark.slow) for d in (7, 500))])
@every_clock
def test_a_restored_state_continues_with_the_same_bytes(clock, d):
    """Catches an array that changes while the clock runs and is not named as state: all others are overwritten."""
    (state,) = states(clock.name, d)
    running = clock.start(d, 0.2, state)
    kept = state_arrays(running)
    scratch = [a for a in running if isinstance(a, np.ndarray) and not any(a is b for b in kept)]
    sweep = clock.sweep_time(d)
    hits_until(running, 10.3 * sweep)
    saved = [array.copy() for array in kept]
    first = hits_until(running, 50 * sweep)
    for array, content in zip(kept, saved, strict=True):
        array[...] = content
    for array in scratch:
        array[...] = np.nan if array.dtype.kind == "f" else -1
    second = hits_until(running, 50 * sweep)
    assert first.times.tobytes() == second.times.tobytes()
    assert first.sites.tobytes() == second.sites.tobytes()
    assert first.sites.size > 0


@pytest.mark.parametrize("d", [1, 64, *(pytest.param(d, marks=pytest.mark.slow) for d in (3, 500))])
@every_particle
def test_a_site_is_at_its_wall_when_it_hits_it(clock, d):
    """Catches hits and positions that disagree, times that go back, and sites behind their wall."""
    (state,) = states(clock.name, d)
    running = clock.start(d, 0.1, state)
    times, sites = np.empty(1), np.empty(1, np.int32)
    last = 0.0
    for _ in range(500):
        assert fill_compiled(running, math.inf, times, sites) == (1, False)
        z, _ = where(running, d, times[0])
        assert z[sites[0]] < 1e-9
        assert np.all(z >= 0)
        assert times[0] >= last
        last = times[0]


@every_clock
def test_hits_stay_before_the_stop(clock):
    """Catches a clock that runs past its stop, or stops before it although hits are due."""
    d = 20
    (state,) = states(clock.name)
    expected = hits_until(clock.start(d, 0.1, state.copy()), 100.0)
    for stop in np.random.default_rng(SEED).uniform(0, 100, 50):
        hits = hits_until(clock.start(d, 0.1, state.copy()), stop)
        assert hits.times.size == np.searchsorted(expected.times, stop, side="right")


# --- long runs --------------------------------------------------------------------------------------------------------


def gaussian_hit_rate(d: int, z: NDArray[np.float64], w: NDArray[np.float64]) -> float:
    """Return the hit rate of the Gaussian billiard without refreshment, where the distance rho to the origin is kept.

    A leg goes from -x to x', both Rayleigh, and turns y by atan(x/rho) + atan(x'/rho): d / pi hits per unit of angle,
    and the mean of atan(x/rho) is (pi/2) erfcx(rho / sqrt 2), in a mean time of 2 sqrt(pi/2).
    """
    rho = math.sqrt(max(z @ z - (z @ w) ** 2, 0.0))
    return float(d / math.sqrt(2 * math.pi) * special.erfcx(rho / math.sqrt(2)))


def run_without_refreshment(clock: Clock, d: int, n_hits: float) -> None:
    (state,) = states(clock.name, d)
    running = clock.start(d, 0.0, state)
    z, w = where(running, d, 0.0)
    rate = gaussian_hit_rate(d, z, w) if clock.name == "gaussian" else clock.hit_rate(d)
    rounds = 100
    duration = n_hits / rate / rounds
    hits, sites_hit = np.zeros(rounds, np.int64), np.zeros(d, np.int64)
    count_hits(linked(running), duration, rounds, np.empty(1024), np.empty(1024, np.int32), hits, sites_hit)
    z, w = where(running, d, 0.0)
    assert abs(w @ w - 1) < 1e-9
    assert np.all(z >= 0)
    assert np.all(hits > 0)
    assert sites_hit.min() > 0.5 * sites_hit.mean()
    z_test(hits / duration, rate, detect=0.05 * rate, name="hits per unit time").check()
    bounces = running.count[BOUNCES] / (rounds * duration)
    assert bounces == pytest.approx(clock.bounce_rate(d), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 10, 1000])
@every_billiard
def test_ten_million_hits_without_refreshment(clock, d):
    """Catches hangs, walls that are lost for good, and speeds that drift. Sees a hit rate wrong by 5 %, alpha 1e-6."""
    run_without_refreshment(clock, d, 1e7)


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 10, 1000])
@every_billiard
def test_a_hundred_million_hits_without_refreshment(clock, d):
    """Catches rounding that builds up too slowly for the short run. Sees a hit rate wrong by 5 %, alpha 1e-6."""
    run_without_refreshment(clock, d, 3e8 if clock is GAUSSIAN else 1e8)


def states_visited(clock: Clock, d: int, rate: float, n_hits: int) -> int:
    """Return the number of states seen when every hit flips its site."""
    (state,) = states(clock.name, d, rate)
    hits = hits_until(clock.start(d, rate, state), n_hits / clock.hit_rate(d))
    walk = np.bitwise_xor.accumulate(1 << hits.sites.astype(np.int64))
    return np.unique(np.append(walk, 0)).size


@pytest.mark.parametrize("d", [4, 6])
def test_the_gaussian_clock_is_reducible_without_refreshment(d):
    """Catches a lost or doubled hit: in a fixed cyclic order of sites a flat target has exactly 2d reachable states."""
    assert states_visited(GAUSSIAN, d, 0.0, 20_000) == 2 * d
    assert states_visited(GAUSSIAN, d, 0.3, 20_000) == 2**d


# --- degenerate states ------------------------------------------------------------------------------------------------


def plant(clock: Clock, z: NDArray[np.float64], w: NDArray[np.float64]) -> Any:
    """Return a clock without refreshment at time 0 in the state (z, w)."""
    (state,) = states(clock.name, z.size)
    running = clock.start(z.size, 0.0, state)
    with np.errstate(all="ignore"):
        if clock.name == "gaussian":
            _derive_plane(running, 0.0, z.copy(), w.copy())
        else:
            running.scratch[:] = z, w
            _open_era(running, 0.0)
    return running


def planted_states() -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    rng = np.random.default_rng(SEED)
    d = 5
    z = np.abs(rng.normal(size=d))
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    radial = z / np.linalg.norm(z)
    nearly_radial = radial + 1e-12 * w
    axis, along_first = np.zeros(d), np.zeros(d)
    axis[0] = 1.0
    along_first[1:] = w[1:] / np.linalg.norm(w[1:])
    nearly_along = along_first.copy()
    nearly_along[0] = 1e-300
    on_walls = z.copy()
    on_walls[:3] = 0.0
    diagonal = np.full(d, 1 / math.sqrt(d))
    return {
        "outwards": (z, radial),
        "inwards": (z, -radial),
        "nearly inwards": (z, -nearly_radial / np.linalg.norm(nearly_radial)),
        "along a wall": (z, along_first),
        "nearly along a wall": (z, nearly_along),
        "along an axis": (z, -axis),
        "on walls": (on_walls, w),
        "on walls and inwards": (on_walls, -np.abs(w)),
        "at the origin": (np.zeros(d), w),
        "along a wall and on it": (on_walls, along_first),
        "all alike": (np.ones(d), -diagonal),
        "slope zero": (z, np.array([1.0, -1.0, 1.0, -1.0, 0.0]) / 2),
        "tiny": (1e-300 * z, w),
        "huge": (1e6 * z, w),
    }


@pytest.mark.parametrize("name", planted_states())
@every_billiard
def test_degenerate_states_do_not_hang(clock, name):
    """Catches endless loops, hits at NaN and lost speed where the particle meets several walls, or none, at once."""
    z, w = planted_states()[name]
    running = plant(clock, z, w)
    t_stop = 1000.0 + 20 * z.max()
    hits = hits_until(running, t_stop)
    assert np.all(np.diff(hits.times) >= 0)
    assert np.all(hits.times >= 0)
    assert hits.times.size < 20 * t_stop
    z_end, w_end = where(running, z.size, t_stop)
    assert np.all(z_end >= 0)
    assert abs(w_end @ w_end - 1) < 1e-9
