"""The literal twin of HMC does what its paper says: energy, reversibility, hit times by other formulas, and its law."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bouncy._random import new_state
from bouncy.enumeration import exact, states
from bouncy.experiments.particle import flip_cost
from bouncy.targets.mrf import MRF
from helpers.literal import AUGMENTATIONS, CROSSED, REFRESHED, REFUSED
from helpers.literal_hmc import energy, literal_hmc, new_particle, until_wall
from helpers.statistics import chi_square_test, z_test

pytestmark = pytest.mark.slow

augmentations = pytest.mark.parametrize("augmentation", AUGMENTATIONS)


@pytest.fixture
def state(seed):
    return new_state(np.random.SeedSequence([seed, 21]))


def random_target(d):
    target = MRF.random(d, sigma_M=0.5, sigma_r=0.2, seed=3)
    return target, target.M, target.r


def random_start(d, rng):
    s = rng.choice([-1, 1], d).astype(np.int8)
    return s * rng.exponential(size=d), rng.normal(size=d), s


@pytest.mark.parametrize("d", [1, 2, 7, 64])
@augmentations
def test_energy_is_conserved(augmentation, d, state, rng):
    """Catches a wrong motion, speed lost at a reflection, a wrong toll, or a cost without its factor 2."""
    _, M, r = random_target(d)
    start = random_start(d, rng)
    before = energy(M, r, augmentation, *start)
    path = literal_hmc(
        M, r, augmentation, travel_time=math.inf, state=state, duration=30.0, start=start, compiled=d > 7
    )
    assert np.count_nonzero(path.at_wall) == path.kind.size > 3 * d
    assert energy(M, r, augmentation, path.y, path.v, path.s) == pytest.approx(before, rel=1e-10, abs=1e-10)
    assert np.all(path.s * path.y >= 0)


@pytest.mark.parametrize("d", [1, 2, 7])
@augmentations
def test_the_motion_is_reversible(augmentation, d, state, rng):
    """Catches an irreversible wall: run, negate v, run back, and meet the same walls at the same times."""
    _, M, r = random_target(d)
    y, v, s = random_start(d, rng)
    options = {"travel_time": math.inf, "state": state, "duration": 20.0}
    there = literal_hmc(M, r, augmentation, start=(y, v, s), **options)
    back = literal_hmc(M, r, augmentation, start=(there.y, -there.v, there.s), **options)
    np.testing.assert_array_equal(back.kind, there.kind[::-1])
    np.testing.assert_array_equal(back.site, there.site[::-1])
    np.testing.assert_allclose(20.0 - back.time, there.time[::-1], atol=1e-8)
    np.testing.assert_allclose(back.y, y, atol=1e-8)
    np.testing.assert_allclose(-back.v, v, atol=1e-8)
    np.testing.assert_array_equal(back.s, s)
    assert {CROSSED, REFUSED} <= set(there.kind) or d < 7


def wall_schedule(target, augmentation, start, n):
    """Return the first n hits of one endless trajectory from (time, speed) at the last wall of each site alone."""
    y, v, s = (np.array(x) for x in start)
    gaussian = augmentation == "gaussian"
    due = np.array([until_wall(z, w, gaussian) for z, w in zip(s * y, s * v, strict=True)])
    speed = np.sqrt(v**2 + (y**2 if gaussian else 2 * np.abs(y)))
    hits = []
    for _ in range(n):
        i = int(np.argmin(due))
        flipped = s.copy()
        flipped[i] *= -1
        left = speed[i] ** 2 - 2 * float(target.log_prob(s) - target.log_prob(flipped))
        if left > 0:
            s, speed[i] = flipped, math.sqrt(left)
        hits.append((i, CROSSED if left > 0 else REFUSED, due[i]))
        due[i] += math.pi if gaussian else 2 * speed[i]
    return [np.array(column) for column in zip(*hits, strict=True)]


@pytest.mark.parametrize("d", [1, 2, 7])
@augmentations
def test_every_wall_was_due(augmentation, d, state, rng):
    """Catches a wall met too early, too late, twice at once or not at all, and a wrong decision there.

    A site is back at its wall exactly pi (Gaussian) or twice its speed (exponential) after it left it.
    """
    target, M, r = random_target(d)
    start = random_start(d, rng)
    path = literal_hmc(M, r, augmentation, travel_time=math.inf, state=state, events=300, start=start)
    sites, kinds, times = wall_schedule(target, augmentation, start, 300)
    np.testing.assert_array_equal(path.site, sites)
    np.testing.assert_array_equal(path.kind, kinds)
    np.testing.assert_allclose(path.time, times, rtol=1e-10)


def test_gaussian_walls_are_met_every_pi(state):
    """Catches a site that hits its wall again at once, or an order that changes within a trajectory."""
    _, M, r = random_target(5)
    path = literal_hmc(M, r, "gaussian", travel_time=math.inf, state=state, events=200)
    for i in range(5):
        np.testing.assert_allclose(np.diff(path.time[path.site == i]), math.pi, atol=1e-10)


@pytest.mark.parametrize("gaussian", [True, False])
def test_time_to_the_wall_is_a_root(gaussian):
    """Catches the wrong root, cancellation far from or near the wall, and a negative zero that delays a hit.

    By inversion: the position at the returned time is zero, relative to the size of its terms.
    """
    for z in (0.0, 1e-12, 0.3, 40.0):
        for w in (-30.0, -1e-9, 1e-9, 2.0, 1e3):
            t = until_wall(z, w, gaussian)
            terms = np.array([z * math.cos(t), w * math.sin(t)] if gaussian else [z, w * t, -t * t / 2])
            assert abs(terms.sum()) <= 1e-13 * max(np.abs(terms).max(), abs(z), abs(w) if gaussian else 0.0)
            assert t >= 0
    away, towards = (math.pi, 0.0) if gaussian else (4.0, 0.0)
    for zero in (0.0, -0.0, -1e-17):
        assert until_wall(zero, 2.0, gaussian) == away
        assert until_wall(zero, -2.0, gaussian) == towards


@pytest.mark.parametrize("d", [1, 7])
@augmentations
def test_compiled_and_interpreted_are_the_same(augmentation, d, state):
    """Catches code whose meaning numba changes."""
    _, M, r = random_target(d)
    interpreted, compiled = (
        literal_hmc(M, r, augmentation, travel_time=4.0, state=state.copy(), events=2000, compiled=c)
        for c in (False, True)
    )
    np.testing.assert_array_equal(interpreted.kind, compiled.kind)
    np.testing.assert_array_equal(interpreted.site, compiled.site)
    np.testing.assert_allclose(interpreted.time, compiled.time, rtol=1e-9)


@augmentations
def test_trajectories_end_on_time_and_carry_the_position_over(augmentation, state):
    """Catches refreshment at another time, a position drawn anew, and a velocity that is not."""
    _, M, r = random_target(3)
    path = literal_hmc(M, r, augmentation, travel_time=1.5, state=state.copy(), duration=15.0)
    np.testing.assert_allclose(path.time[path.kind == REFRESHED], 1.5 * np.arange(1, 10), rtol=1e-14)
    assert np.all(path.site[path.kind == REFRESHED] == -1)
    end = literal_hmc(M, r, augmentation, travel_time=1.5, state=state.copy(), duration=1.5)
    first_events = end.kind.size
    then = literal_hmc(M, r, augmentation, travel_time=1.5, state=state.copy(), events=first_events + 1)
    np.testing.assert_allclose(then.y, end.y, atol=1e-14)
    np.testing.assert_array_equal(then.s, end.s)
    assert np.all(np.abs(then.v - end.v) > 1e-6)


def test_cost_of_a_flip_is_the_targets():
    """Catches a wrong sign or factor in the cost, and couplings that are not left out where there are none."""
    target, M, r = random_target(6)
    s = np.array([1, -1, -1, 1, 1, -1], np.int8)
    for i in range(6):
        flipped = s.copy()
        flipped[i] *= -1
        cost = float(target.log_prob(s) - target.log_prob(flipped))
        assert flip_cost(M, r, s, i) == pytest.approx(cost, rel=1e-12)
        assert flip_cost(np.zeros((0, 0)), r, s, i) == pytest.approx(-2.0 * s[i] * r[i], rel=1e-15)


@augmentations
def test_start_is_drawn_from_its_law(augmentation, seed):
    """Catches a wrong law of |y| or v at the start.

    z-tests, alpha 1e-6, see biases of 0.25 in E|y|^k and E v^2, which are 1, and of 0.2 in E v.
    """
    draws = [
        new_particle(
            None, [0.0] * 4, augmentation, travel_time=1.0, state=new_state(np.random.SeedSequence([seed, 22, k]))
        )
        for k in range(4000)
    ]
    y, v = np.array([p.y for p in draws]), np.array([p.v for p in draws])
    assert np.all(y > 0)
    z_test(y**2 if augmentation == "gaussian" else y, 1.0, detect=0.25).check()
    z_test(v**2, 1.0, detect=0.25).check()
    z_test(v, 0.0, detect=0.2).check()


@augmentations
def test_stationary_law_is_kept(augmentation, seed):
    """Catches an algorithm that, followed to the letter, has another law than p(s) and its |y| and v.

    From exact draws, over a fixed time that ends within a trajectory. Chi-square on s, alpha 1e-6, sees a total
    variation of 0.04. z-tests on E|y|^k and E v^2, alpha 1e-6, see biases of 0.06.
    """
    d, replicates = 3, 10_000
    target, M, r = random_target(d)
    rng = np.random.default_rng([seed, 23])
    p = np.exp(target.log_prob(states(d)) - exact(target).log_z)
    starts = states(d)[rng.choice(2**d, replicates, p=p)]
    shape = (replicates, d)
    z = np.abs(rng.normal(size=shape)) if augmentation == "gaussian" else rng.exponential(size=shape)
    v = rng.normal(size=shape)
    ends = [
        literal_hmc(
            M,
            r,
            augmentation,
            travel_time=1.7,
            state=rng.integers(2**64, size=4, dtype=np.uint64),
            duration=4.0,
            start=(starts[k] * z[k], v[k], starts[k]),
            compiled=True,
        )
        for k in range(replicates)
    ]
    s = np.array([end.s for end in ends])
    cells = np.all(s[:, None, :] == states(d)[None], axis=2)
    chi_square_test(cells.sum(axis=0), p, detect=0.05).check()
    y = np.array([end.y for end in ends])
    moment = np.mean(y**2 if augmentation == "gaussian" else np.abs(y), axis=1)
    z_test(moment, 1.0, detect=0.07).check()
    z_test(np.mean(np.array([end.v for end in ends]) ** 2, axis=1), 1.0, detect=0.07).check()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"augmentation": "cauchy"}, "'cauchy'; expected one of"),
        ({"r": np.zeros(2)}, r"\(3, 3\) and r \(2,\); expected"),
        ({"travel_time": 0.0}, "0.0; expected a number > 0"),
        ({"travel_time": math.nan}, "nan; expected a number > 0"),
        ({"duration": 1.0}, "exactly one"),
        ({"events": None}, "exactly one"),
    ],
)
def test_wrong_arguments_are_named(changes, message, state):
    """Catches an oracle that runs on something else than it was given."""
    arguments = {"M": np.zeros((3, 3)), "r": np.zeros(3), "augmentation": "gaussian", "travel_time": 1.0, "events": 3}
    with pytest.raises(ValueError, match=message):
        literal_hmc(**{**arguments, **changes}, state=state)
