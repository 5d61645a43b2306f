"""Flips of each site, and what a run says about sites that never move."""

import numpy as np
import pytest

import bouncy


def test_flips_of_sites_add_up(seed):
    """Catches a flip that is counted for another site, twice, or not at all: few sites move, and at known rates."""
    r = np.array([0.0, 3.0, -40.0])
    run = bouncy.sample(bouncy.MRF(np.zeros((3, 3)), r), chains=3, draws=400, seed=seed)
    flips = run.flips_per_site
    assert flips.dtype == np.int64
    assert flips.sum() == run.diagnostics["flips"]
    assert flips[0] > 20 * flips[1] > 0
    assert flips[2] == 0


def test_flips_are_those_of_the_draws(seed):
    """Catches counts that begin before the first draw: a scan tries each site once between two of them."""
    run = bouncy.sample(bouncy.MRF.random(5, seed=1), "gibbs", chains=2, draws=300, warmup=7, seed=seed)
    seen = (np.diff(run.draws, axis=1) != 0).sum(axis=(0, 1))
    first = run.flips_per_site - seen  # what changed before the first draw was taken
    assert ((first >= 0) & (first <= 2)).all()


def test_flips_survive_an_extension(seed):
    """Catches counts that are lost or doubled when a run goes on."""
    target = bouncy.MRF.random(5, seed=1)
    whole = bouncy.sample(target, draws=60, warmup=10, seed=seed)
    parts = bouncy.sample(target, draws=20, warmup=10, seed=seed).extend(draws=40)
    assert parts.flips_per_site.tolist() == whole.flips_per_site.tolist()


def test_crossings_of_continuous_variables(seed):
    """Catches crossings counted for the wrong variable: of two spins and a number one spin alone can flip."""
    target = bouncy.MixedBinaryGaussian(np.zeros((2, 2)), [0.0, 40.0], precision=[[1.0]])
    run = bouncy.sample(target, chains=2, draws=100, seed=seed, initial=[1.0, -1.0, 0.0])
    flips = run.flips_per_site
    assert flips.sum() == run.diagnostics["flips"] > 0
    assert flips[1:].tolist() == [0, 0]
    assert run.diagnostics["constant_sites"].tolist() == [1]


@pytest.mark.parametrize("keep", ["draws", "means"])
def test_frozen_sites_are_named(keep, seed):
    """Catches a site that never moved and goes unnoticed because no states were kept."""
    names = ["a", "b", "c", "d", "e", "f", "g", "h"]
    target = bouncy.MRF(np.zeros((8, 8)), np.array([0.0, *[40.0] * 6, 0.1]), labels=names)
    run = bouncy.sample(target, chains=2, draws=50, seed=seed, keep=keep)
    assert run.diagnostics["constant_sites"].tolist() == [1, 2, 3, 4, 5, 6]
    said = "6 of 8 sites never moved and are called constant: b, c, d, e, f, ..."
    assert said in run.diagnostics["warnings"]


def test_sites_that_move_between_draws_did_move(seed):
    """Catches "never moved" said of a site whose draws are all the same: it flips twice between two of them."""
    with pytest.warns(bouncy.NotErgodicWarning):
        run = bouncy.sample(bouncy.MRF([[0.0]]), "metropolis", chains=1, draws=8, thin=2, warmup=0, seed=seed)
    assert run.flips_per_site.tolist() == [16]
    assert run.diagnostics["constant_sites"].tolist() == [0]
    assert any("the same value in every draw" in text for text in run.diagnostics["warnings"])
    assert not any("never moved" in text for text in run.diagnostics["warnings"])
