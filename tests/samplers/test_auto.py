"""A sampler that chooses itself: by what a pilot found, as a function of the seed, and never by the clock."""

import numpy as np
import pytest

import bouncy
from conftest import base_seed
from helpers.slabs import slab

QUICK = {"draws": 100, "seed": 3, "pairs": "none"}


def auto(target, **options):
    return bouncy.sample(target, "auto", **{**QUICK, **options})


STUCK = {
    "glass": lambda: slab(3, 4, 2.0, 1).target,
    "hard": lambda: bouncy.MRF.random(10, sigma_M=2.0, sigma_r=0.1, seed=3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STUCK)
def test_stuck_targets_are_tempered(name):
    """Catches a choice that trusts chains which are apart."""
    run = auto(STUCK[name]())
    assert run.sampler.name == "tempered"
    assert run.sampler.ladder is not None
    assert run.diagnostics["auto"].startswith("tempered, because in a pilot of bps-gaussian ")
    assert "chosen: tempered, because" in str(run.summary())


@pytest.mark.parametrize(
    "target",
    [bouncy.MRF.ising((6, 6), 0.8), bouncy.MRF.ising((6, 6), [0.44, -0.44]), bouncy.MRF.ising((6, 6), 0.8, field=0.01)],
    ids=["two modes", "transition in a gauge", "weak field"],
)
def test_magnets_are_sampled_by_clusters(target):
    """Catches a ladder, or single flips, where clusters are not tried, and ties that keep them out."""
    run = auto(target)
    assert run.sampler.name == "swendsen-wang"
    assert run.diagnostics["auto"].startswith("swendsen-wang, because its chains agreed in a pilot; ")


@pytest.mark.slow
def test_easy_targets_are_not():
    """Catches a ladder where it is not needed."""
    run = auto(bouncy.MRF.random(10, sigma_M=0.2, sigma_r=0.1, seed=1))
    assert run.sampler.name in ("bps-gaussian", "metropolis", "gibbs")
    assert "squared error times work" in run.diagnostics["auto"]
    assert bouncy.sample(bouncy.MRF.random(4, seed=1), **QUICK).diagnostics.get("auto") is None


def test_states_that_turn_to_and_fro_are_no_modes():
    """Catches Gibbs, whose error is tenfold here, where the others turn nearly every spin in each sweep."""
    run = auto(bouncy.MRF.random(100, sigma_M=0.02, sigma_r=0.0, seed=3))
    assert run.sampler.name == "metropolis"


@pytest.mark.parametrize("target", [bouncy.MRF.ising((6, 6), 0.2), bouncy.MRF(np.zeros((5, 5)))], ids=["torus", "flat"])
def test_ties_keep_metropolis_out(target):
    """Catches sites in turn on a target where flips cost nothing, on which they may visit few states."""
    run = auto(target)
    assert run.sampler.name in ("bps-gaussian", "gibbs", "metropolis-random", "swendsen-wang")
    if run.sampler.name != "metropolis-random":
        assert "metropolis was left out" in run.diagnostics["auto"]


def test_the_choice_is_a_function_of_the_seed(tmp_path):
    """Catches a choice by the speed of the machine, and one that is lost in a file or made again when a run goes on."""
    target = STUCK["hard"]()
    run, again = auto(target), auto(target, threads=1)
    assert run.sampler == again.sampler
    assert (run.draws == again.draws).all()
    run.save(tmp_path / "run.npz")
    loaded = bouncy.Run.load(tmp_path / "run.npz", target)
    assert loaded.diagnostics["auto"] == run.diagnostics["auto"]
    assert (loaded.extend(draws=20).draws == run.extend(draws=20).draws).all()
    plain = bouncy.sample(target, run.sampler, **QUICK)
    assert (plain.draws == run.draws).all()


def test_what_has_no_choice_is_refused():
    """Catches a scheme that is handed to a pilot."""
    scheme = bouncy.Within(
        lambda h: bouncy.MRF(np.zeros((2, 2)), -h * np.ones(2)), {"h": lambda x, p, rng: 0.1}, {"h": 0.0}
    )
    with pytest.raises(ValueError, match="'auto' chooses among samplers of spins"):
        auto(scheme)
    lasso = bouncy.BayesianLasso([[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0], penalty=1.0, noise_scale=1.0)
    scheme = bouncy.Within(lasso.given, {"penalty": lambda x, p, rng: 1.0}, {"penalty": 1.0})
    with pytest.raises(ValueError, match="'auto' chooses a sampler for one target, which a Within is not; name one"):
        auto(scheme)
    assert base_seed() >= 0
