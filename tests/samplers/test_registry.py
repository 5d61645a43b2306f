"""The registry: one entry in one file makes a sampler known to messages, the command line, plots and documents."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse

import bouncy
from bouncy import samplers
from bouncy.cli.main import main
from bouncy.piecewise.targets import examples
from bouncy.plots.style import colour_of
from bouncy.samplers import OF_SPINS, as_sampler, names, registry, table
from bouncy.samplers.contract import Named, PathSampler, Sampler, SpinSampler
from helpers.command_line import new_runner

ROOT = Path(__file__).parents[2]
SPINS = bouncy.MRF(np.zeros((2, 2)))
FIXED = SPINS.fixed_sum(1)
NORMAL = bouncy.Gaussian([0.0, 0.0], cov=np.eye(2))
LASSO = examples()["lasso"]()
WELL = examples()["density-well"]()


@pytest.mark.parametrize(("kind", "targets"), [(OF_SPINS, [SPINS, FIXED]), (PathSampler, [NORMAL, WELL])])
def test_names_stand_for_the_registered_samplers(kind, targets):
    """Catches a name that two samplers of a kind share, that stands for another kind, or that users cannot ask for."""
    found = names(kind)
    assert len(set(found)) == len(found) >= 2
    for entry in registry(kind):
        target = next(target for target in targets if entry.sampler.accepts(target))
        assert as_sampler(target, entry.name) is entry.sampler
        assert as_sampler(target, entry.sampler) is entry.sampler


def test_defaults():
    """Catches a default that depends on the order of files."""
    assert as_sampler(SPINS).name == "bps-gaussian"
    assert as_sampler(FIXED).name == "metropolis-swap"
    assert as_sampler(SPINS.one_hot([[0]])).name == "metropolis-mixed"
    assert as_sampler(WELL).name == "bps"
    assert as_sampler(LASSO).name == "gibbs"
    assert as_sampler(NORMAL).name == "hmc"
    chain = scipy.sparse.diags_array([np.full(39, 0.4), np.ones(40), np.full(39, 0.4)], offsets=[-1, 0, 1])
    assert as_sampler(bouncy.TruncatedGaussian(0.0, precision=chain, lower=0.0)).name == "gibbs"
    assert as_sampler(bouncy.TruncatedGaussian([0.0, 0.0], cov=1.0, lower=[20.0, 0.0])).name == "gibbs"


def test_within_takes_the_samplers_of_its_block():
    """Catches a scheme that gets the default, or the refusal, of another kind of target."""
    scheme = bouncy.Within(lambda scale: NORMAL, {"scale": lambda x, parameters, generator: 1.0}, {"scale": 1.0})
    assert as_sampler(scheme) == bouncy.piecewise.HMC()
    assert as_sampler(scheme, "hmc") == bouncy.piecewise.HMC()
    with pytest.raises(
        ValueError, match="Gaussian is continuous and can be sampled by: auto, bps, gibbs, gibbs-random, hmc"
    ):
        as_sampler(scheme, "metropolis")


@pytest.mark.parametrize(
    ("target", "asked", "error", "message"),
    [
        (SPINS, "bps", ValueError, "sampler is 'bps'; known names: auto, bps-exponential, bps-gaussian, gibbs, "),
        (SPINS, bouncy.piecewise.BPS(), TypeError, "sampler must be a name or a sampler such as bouncy.BPS"),
        (SPINS, bouncy.BPS, TypeError, "sampler must be a name or a sampler such as bouncy.BPS"),
        (
            LASSO,
            "hmc",
            ValueError,
            "sampler is 'hmc'; BayesianLasso is continuous and can be sampled by: auto, bps, gibbs, gibbs-random$",
        ),
        (
            LASSO,
            "metropolis",
            ValueError,
            "BayesianLasso is continuous and can be sampled by: auto, bps, gibbs, gibbs-random$",
        ),
        (
            NORMAL,
            bouncy.piecewise.Metropolis(),
            TypeError,
            "Gaussian is continuous: sampler must be one of auto, bps, gibbs, gibbs-random, ",
        ),
        (WELL, "hmc", ValueError, "Density is continuous and can be sampled by: auto, bps, metropolis$"),
        (
            WELL,
            bouncy.Metropolis(),
            TypeError,
            "Density is continuous: sampler must be one of auto, bps, metropolis, or a ",
        ),
        (LASSO, bouncy.Gibbs(), TypeError, "BayesianLasso is continuous: sampler must be one of auto, bps, gibbs, "),
        (
            LASSO,
            bouncy.piecewise.HMC(),
            TypeError,
            "BayesianLasso is continuous: sampler must be one of auto, bps, gibbs, ",
        ),
    ],
)
def test_samplers_of_other_targets_are_refused(target, asked, error, message):
    """Catches a sampler that starts on a target it cannot sample, and a message that does not list those that can."""
    with pytest.raises(error, match=message):
        as_sampler(target, asked)


@pytest.mark.parametrize(
    ("sampler", "d", "draws", "expected"),
    [
        (bouncy.Gibbs(), 5, 0, 200),
        (bouncy.Gibbs(), 5, 4000, 1000),
        (bouncy.HMC(), 5, 1000, 250),
        (bouncy.HMC(), 5, 0, 31),  # trajectories of 6.5 turns, of 7 sweeps each
        (bouncy.HMC(travel_time=0.25 * np.pi), 5, 0, 800),
        (bouncy.piecewise.BPS(), 4, 0, 200),
        (bouncy.piecewise.BPS(), 900, 0, 300),
        (bouncy.piecewise.HMC(), 4, 4000, 1000),
    ],
)
def test_default_warmup(sampler, d, draws, expected):
    """Catches a warm-up that is shorter than 200 d attempts, 10 sqrt(d) sweeps or a quarter of the draws."""
    target = bouncy.MRF(np.zeros((d, d))) if isinstance(sampler, SpinSampler) else NORMAL
    target = target if target.d == d else bouncy.Gaussian(np.zeros(d), cov=np.eye(d))
    assert sampler.default_warmup(target, draws) == expected


@pytest.mark.parametrize(("kind", "page"), [(OF_SPINS, "docs/samplers.md"), (PathSampler, "docs/continuous.md")])
def test_documents_have_the_row_of_every_sampler(kind, page):
    """Catches a sampler that users are not told of, or are told something else of than the registry has."""
    lines = (ROOT / page).read_text().splitlines()
    rows = table(kind)
    assert all(any(f'`"{name}"`' in row for row in rows) for name in names(kind))
    assert [row for row in rows if row not in lines] == []


def test_one_file_is_all_that_a_sampler_needs(monkeypatch):
    """Catches a list of samplers beside the registry: in messages, the command line or plots."""

    @dataclass(frozen=True)
    class Newcomer(bouncy.Gibbs):
        @property
        def name(self):
            return "newcomer"

    module = ModuleType("bouncy.samplers.newcomer")
    module.NAMED = (Named(Newcomer(), "a sampler of tomorrow", "#123456"),)
    found = samplers.modules
    monkeypatch.setattr(
        samplers, "modules", lambda package: (*found(package), *[module] * (package == "bouncy.samplers"))
    )
    assert "newcomer" in names()
    assert as_sampler(SPINS, "newcomer") == Newcomer()
    assert colour_of("newcomer") == "#123456"
    assert '| `"newcomer"` | a sampler of tomorrow |' in table()
    with pytest.raises(ValueError, match="newcomer"):
        as_sampler(SPINS, "nobody")
    assert "newcomer" in new_runner().invoke(main, ["sample", "--help"]).output
    assert "newcomer" in new_runner().invoke(main, ["warmup", "--sampler", "nobody"]).stderr


def test_the_base_class_is_of_both_kinds():
    """Catches a public base class that tells users' samplers of one kind from those of the other."""
    assert bouncy.Sampler is Sampler
    assert all(isinstance(entry.sampler, Sampler) for entry in registry())
    assert {SpinSampler, PathSampler} == {bouncy.SpinSampler, bouncy.PathSampler}
