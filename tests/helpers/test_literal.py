"""The literal twin does what the paper says: checked by replaying its paths with other formulas, and by its law."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from bouncy._random import exponential, fill_sphere, new_state
from bouncy.enumeration import exact, states
from bouncy.targets.mrf import MRF
from helpers.literal import (
    AUGMENTATIONS,
    BOUNCED,
    BUDGET,
    CROSSED,
    REFRESHED,
    REFUSED,
    T_REFRESH,
    literal_bps,
    log_likelihood,
    new_particle,
)
from helpers.statistics import chi_square_test, z_test

augmentations = pytest.mark.parametrize("augmentation", AUGMENTATIONS)


@pytest.fixture
def state(seed):
    return new_state(np.random.SeedSequence([seed, 7]))


def random_target(d):
    target = MRF.random(d, sigma_M=0.5, sigma_r=0.2, seed=3)
    return target, target.view().M, target.view().r


class Replay:
    """A particle that replays a list of events and checks that each was due."""

    def __init__(self, target, augmentation, state, rate):
        view = target.view()
        start = new_particle(view.M, view.r, augmentation, clock_state=state, refreshment_rate=rate)
        self.target, self.gaussian, self.state, self.rate = target, start.gaussian, state, rate
        self.y, self.v, self.s = start.y, start.v, start.s
        self.t, self.t_refresh = 0.0, start.now[T_REFRESH]
        self.budget, self.spent = start.now[BUDGET], 0.0

    def gradient(self, t):
        return self.y + self.v * t if self.gaussian else self.s.astype(float)

    def move(self, t):
        """Move to time t and add the integral of [v.grad U]_+, by quadrature, to what was spent."""
        dt = t - self.t
        foot = -(self.v @ self.y)
        kinks = [foot] if self.gaussian and 0 < foot < dt else None
        self.spent += quad(lambda u: max(self.v @ self.gradient(u), 0.0), 0.0, dt, points=kinks)[0]
        self.y = self.y + self.v * dt
        self.t = t
        assert np.all(self.s * self.y > -1e-7)

    def renew(self):
        self.budget, self.spent = exponential(self.state), 0.0

    def meet_wall(self, i, kind):
        assert abs(self.y[i]) < 1e-7
        assert self.s[i] * self.v[i] < 0
        flipped = self.s.copy()
        flipped[i] *= -1
        height = float(self.target.log_prob(self.s) - self.target.log_prob(flipped))
        assert kind == (CROSSED if height < self.budget - self.spent else REFUSED)
        if kind == CROSSED:
            self.s = flipped
            self.spent += max(height, 0.0)
        else:
            self.v[i] *= -1
            self.renew()

    def bounce(self):
        assert self.spent == pytest.approx(self.budget, abs=1e-7)
        normal = self.gradient(0.0) / np.linalg.norm(self.gradient(0.0))
        mirror = np.eye(normal.size) - 2 * np.outer(normal, normal)
        self.v = mirror @ self.v
        self.renew()

    def refresh(self):
        assert self.t == self.t_refresh
        fill_sphere(self.state, self.v)
        self.v *= self.s
        self.t_refresh += exponential(self.state) / self.rate
        self.renew()


@pytest.mark.parametrize("d", [1, 2, 5])
@augmentations
def test_every_event_was_due(augmentation, d, state):
    """Catches a wrong event time, reflection, payment or crossing.

    By inversion: where the particle bounces, the integrated rate and the walls paid since the last budget was drawn
    equal that budget.
    """
    target, M, r = random_target(d)
    path = literal_bps(M, r, augmentation, clock_state=state.copy(), refreshment_rate=0.3, events=60)
    with np.errstate(over="ignore"):
        replay = Replay(target, augmentation, state, 0.3)
        for kind, time, site in zip(path.kind, path.time, path.site, strict=True):
            replay.move(time)
            if site >= 0:
                replay.meet_wall(site, kind)
            elif kind == BOUNCED:
                replay.bounce()
            else:
                replay.refresh()
    assert set(path.kind) == {CROSSED, REFUSED, BOUNCED, REFRESHED}
    np.testing.assert_allclose(replay.y, path.y, atol=1e-7)
    np.testing.assert_allclose(replay.v, path.v, atol=1e-7)
    np.testing.assert_array_equal(replay.s, path.s)


@pytest.mark.parametrize("d", [1, 7])
@augmentations
def test_compiled_and_interpreted_are_the_same(augmentation, d, state, seed):
    """Catches code whose meaning numba changes, so that the compiled benchmark would not be the published algorithm."""
    _, M, r = random_target(d)
    toll_state = new_state(np.random.SeedSequence([seed, 8]))
    interpreted, compiled = (
        literal_bps(M, r, augmentation, clock_state=state.copy(), toll_state=toll_state.copy(), events=2000, compiled=c)
        for c in (False, True)
    )
    np.testing.assert_array_equal(interpreted.kind, compiled.kind)
    np.testing.assert_array_equal(interpreted.site, compiled.site)
    np.testing.assert_allclose(interpreted.time, compiled.time, rtol=1e-9)


@augmentations
def test_a_run_for_a_time_is_a_run_for_its_events(augmentation, state):
    """Catches events lost where a long run is cut into blocks."""
    _, M, r = random_target(3)
    by_events = literal_bps(M, r, augmentation, clock_state=state.copy(), events=10_000, compiled=True)
    end = float(by_events.time[-1])
    by_time = literal_bps(M, r, augmentation, clock_state=state.copy(), duration=end + 1e-9, compiled=True)
    np.testing.assert_array_equal(by_time.kind, by_events.kind)
    np.testing.assert_array_equal(by_time.time, by_events.time)
    assert by_time.end == end + 1e-9


def test_log_likelihood_is_the_targets():
    """Catches a wrong sign or factor in log p, and couplings that are not left out where there are none."""
    target, M, r = random_target(6)
    s = np.array([1, -1, -1, 1, 1, -1], np.int8)
    assert log_likelihood(M, r, s, np.empty(6)) == pytest.approx(float(target.log_prob(s)), rel=1e-13)
    assert log_likelihood(np.zeros((0, 0)), r, s, np.empty(6)) == pytest.approx(-float(s @ r), rel=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("two_purses", [False, True])
@augmentations
def test_stationary_law_is_kept(augmentation, two_purses, seed):
    """Catches an algorithm that, followed to the letter, has another law than p(s) and its |y| and v.

    From exact draws, over a fixed time. Chi-square on s, alpha 1e-6, sees a total variation of 0.04. z-tests on E|y|^k
    and E sum v^4, alpha 1e-6, see biases of 0.06 and 0.02.
    """
    d, replicates = 3, 10_000
    target, M, r = random_target(d)
    rng = np.random.default_rng([seed, 9])
    p = np.exp(target.log_prob(states(d)) - exact(target).log_z)
    starts = states(d)[rng.choice(2**d, replicates, p=p)]
    shape = (replicates, d)
    z = np.abs(rng.normal(size=shape)) if augmentation == "gaussian" else rng.exponential(size=shape)
    v = rng.normal(size=shape)
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    ends = [
        literal_bps(
            M,
            r,
            augmentation,
            clock_state=rng.integers(2**64, size=4, dtype=np.uint64),
            toll_state=rng.integers(2**64, size=4, dtype=np.uint64) if two_purses else None,
            refreshment_rate=0.2,
            duration=3.0,
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
    z_test(np.sum(np.array([end.v for end in ends]) ** 4, axis=1), 3 / (d + 2), detect=0.02).check()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"augmentation": "cauchy"}, "'cauchy'; expected one of"),
        ({"r": np.zeros(2)}, r"\(3, 3\) and r \(2,\); expected"),
        ({"r": np.zeros(0), "M": None}, "d >= 1"),
        ({"refreshment_rate": -1.0}, "-1.0; expected a finite number >= 0"),
        ({"refreshment_rate": math.nan}, "nan; expected a finite number >= 0"),
        ({"duration": 1.0}, "exactly one"),
        ({"events": None}, "exactly one"),
    ],
)
def test_wrong_arguments_are_named(changes, message, state):
    """Catches an oracle that runs on something else than it was given."""
    arguments = {"M": np.zeros((3, 3)), "r": np.zeros(3), "augmentation": "gaussian", "events": 3, **changes}
    with pytest.raises(ValueError, match=message):
        literal_bps(**arguments, clock_state=state)
