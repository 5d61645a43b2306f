"""Gibbs and Metropolis: sites in turn or at random, and the cases in which sites in turn are not ergodic."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import bouncy
from bouncy._compile import kernel
from bouncy._random import new_state
from bouncy.clocks.scans import RANDOM, SYSTEMATIC
from bouncy.samplers.contract import NotErgodicWarning
from bouncy.tolls.contract import pay
from bouncy.tolls.heat_bath import new_heat_bath
from conftest import base_seed
from helpers.compiled_clocks import fill_compiled
from helpers.statistics import chi_square_test, distribution_test, z_test

SEED = base_seed()
N = 400_000


@kernel
def decide(toll, cost, passed):
    for k in range(passed.size):
        passed[k], _ = pay(toll, 0.0, cost, 0)


@pytest.mark.parametrize("d", [1, 3, 10])
def test_systematic_scan_visits_sites_in_turn(d):
    """Catches a site that is left out, or a sweep that begins at another time than the one before ends."""
    clock = SYSTEMATIC.start(d, 0.0, new_state(np.random.SeedSequence(0)))
    times, sites = np.empty(7 * d), np.empty(7 * d, np.int32)
    assert fill_compiled(clock, 5.0, times, sites) == (5 * d, True)
    np.testing.assert_array_equal(sites[: 5 * d], np.tile(np.arange(d), 5))
    np.testing.assert_allclose(times[: 5 * d], (np.arange(5 * d) + 0.5) / d)


def test_random_scan_visits_sites_equally_often():
    """Catches a site that is drawn more often, or never. Chi-square, alpha 1e-6, sees a total variation of 0.01."""
    d = 7
    clock = RANDOM.start(d, 0.0, new_state(np.random.SeedSequence(SEED)))
    times, sites = np.empty(N), np.empty(N, np.int32)
    assert fill_compiled(clock, np.inf, times, sites) == (N, False)
    chi_square_test(np.bincount(sites, minlength=d), np.full(d, 1 / d), detect=0.01).check()
    pairs = sites[0::2] * d + sites[1::2]
    chi_square_test(np.bincount(pairs, minlength=d * d), np.full(d * d, 1 / d**2), detect=0.02).check()
    distribution_test(np.diff(times) * d, lambda x: -np.expm1(-x), detect=0.008, name="times between attempts").check()


@pytest.mark.parametrize("cost", [-50.0, -8.0, -3.0, -0.01, 0.0, 0.03, 0.5, 1.99, 4.0, 7.999, 8.0, 12.0])
def test_heat_bath_probability(cost):
    """Catches a sigmoid of the wrong argument, and a table that is read in the wrong cell.

    z-test of the share that passes, alpha 1e-6; sees a probability wrong by 0.007.
    """
    passed = np.empty(N, np.bool_)
    decide(new_heat_bath(new_state(np.random.SeedSequence([SEED, 2]))), cost, passed)
    p = special.expit(-cost)
    z_test(passed.mean(), p, standard_error=np.sqrt(p * (1 - p) / N) + 1e-12, detect=0.007).check()


@pytest.mark.parametrize(("cost", "expected"), [(np.inf, False), (-np.inf, True), (1e4, False), (np.nan, False)])
def test_heat_bath_at_the_ends(cost, expected):
    """Catches an overflow: a cost that is infinite, or as good as, decides alone; NaN is refused."""
    passed = np.empty(1000, np.bool_)
    decide(new_heat_bath(new_state(np.random.SeedSequence(SEED))), cost, passed)
    assert np.all(passed == expected)


def test_heat_bath_table_brackets_the_probability():
    """Catches a table that would decide otherwise than the formula, for costs all over the table and at its edges."""
    from bouncy.tolls import heat_bath

    costs = np.linspace(-8.0, np.nextafter(8.0, 0.0), 100_001)
    cell = ((costs + 8.0) * 16.0).astype(int)
    p = 1.0 / (1.0 + np.exp(costs))
    assert cell.max() == 256
    assert heat_bath._PROBABILITY.size == 258
    assert np.all(heat_bath._PROBABILITY[cell + 1] <= p * (1 + 1e-15))
    assert np.all(p * (1 - 1e-15) <= heat_bath._PROBABILITY[cell])


def test_systematic_metropolis_warns_on_a_flat_target():
    """Catches a periodic chain whose pair means look certain and are wrong."""
    flat = bouncy.MRF(np.zeros((4, 4)))
    with pytest.warns(NotErgodicWarning, match="every attempted flip was accepted"):
        run = bouncy.sample(flat, "metropolis", chains=2, draws=50, seed=SEED)
    assert any("every attempted flip" in text for text in run.diagnostics["warnings"])
    bouncy.sample(flat, bouncy.Metropolis(scan="random"), chains=2, draws=50, seed=SEED)
    bouncy.sample(flat, "gibbs", chains=2, draws=50, seed=SEED)


@pytest.mark.parametrize("sampler", [bouncy.Gibbs, bouncy.Metropolis])
def test_bad_scans_are_refused(sampler):
    """Catches a misspelt scan that would silently be another one."""
    with pytest.raises(ValueError, match=r"scan is 'sequential'; expected one of: random, systematic"):
        sampler(scan="sequential")


def test_every_site_is_updated():
    """Catches a scan that never comes to the last site: every site must flip about half of the time."""
    run = bouncy.sample(bouncy.MRF(np.zeros((5, 5))), "gibbs", chains=2, draws=2000, seed=SEED)
    changes = (run.draws[:, 1:] != run.draws[:, :-1]).mean(axis=(0, 1))
    z_test(changes, 0.5, standard_error=0.5 / np.sqrt(4000), detect=0.07).check()
