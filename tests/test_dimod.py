"""`BouncySampler` is a dimod sampler by dimod's own tests, and samples the law it promises."""

import importlib
import inspect
import json
import sys
import unittest

import dimod
import dimod.testing
import numpy as np
import pytest

import bouncy
from bouncy.dimod import BouncySampler
from bouncy.formats.ising import from_bqm
from conftest import base_seed
from helpers.statistics import chi_square_test

H = {"z": 0.4, "b": -0.3}
J = {("z", "b"): 0.5, ("b", "a"): -0.6}


@pytest.mark.filterwarnings("ignore::bouncy.NoFlipWarning")  # some of these models are frozen on purpose
@dimod.testing.load_sampler_bqm_tests(BouncySampler)
class TestSuiteOfDimod(unittest.TestCase):
    """Catches what dimod expects of every sampler: empty models, one variable, odd labels, both vartypes, energies."""


def test_interface():
    """Catches a keyword that is not announced, which composites of dimod would drop, or announced and not accepted."""
    sampler = BouncySampler()
    dimod.testing.assert_sampler_api(sampler)
    keywords = inspect.signature(sampler.sample).parameters.values()
    assert list(sampler.parameters) == [p.name for p in keywords if p.kind is p.KEYWORD_ONLY]
    assert "bps-gaussian" in sampler.properties["samplers"]
    assert all(relevant in sampler.properties for name in sampler.parameters for relevant in sampler.parameters[name])
    with pytest.warns(dimod.exceptions.SamplerUnknownArgWarning, match="num_sweeps"):
        sampler.sample(dimod.BinaryQuadraticModel("SPIN"), num_sweeps=3)


@pytest.mark.slow
@pytest.mark.parametrize("vartype", ["SPIN", "BINARY"])
def test_states_are_drawn_with_their_probabilities(vartype):
    """Catches a wrong sign or temperature, columns under the wrong label, and occurrences that are not counted.

    False alarms 1e-6; a total variation of 0.025 between the states and exp(-beta E) is seen. Twenty sweeps apart the
    states are independent for this purpose. The means in `info` must lie within six of their standard errors.
    """
    bqm = dimod.BinaryQuadraticModel(H, J, 0.7, vartype)
    found = BouncySampler().sample(bqm, num_reads=40_001, beta=1.5, thin=20, seed=base_seed())
    assert list(found.variables) == list(bqm.variables) == ["z", "b", "a"]
    assert found.vartype is bqm.vartype
    assert len(found) == 8
    assert found.record.num_occurrences.sum() == 40_001
    dimod.testing.assert_sampleset_energies(found, bqm)

    exact = bouncy.exact(from_bqm(bqm, 1 / 1.5))
    number = (found.record.sample > 0) @ [1, 2, 4]
    chi_square_test(found.record.num_occurrences, exact.probabilities[number], detect=0.025).check()
    mean = exact.mean if vartype == "SPIN" else (1 + exact.mean) / 2
    assert np.all(np.abs(found.info["mean"] - mean) < 6 * np.array(found.info["mean_se"]))
    assert max(found.info["mean_se"]) < 0.01


@pytest.mark.parametrize("vartype", ["SPIN", "BINARY"])
def test_rows_and_info_are_those_of_the_run(vartype):
    """Catches draws of one chain alone, another order of rows, or means and errors left on the scale of spins."""
    bqm = dimod.BinaryQuadraticModel(H, J, 0.7, vartype)
    found = BouncySampler().sample(bqm, num_reads=10, beta=0.5, chains=3, seed=3, aggregate=False)
    run = bouncy.sample(from_bqm(bqm, 2.0), chains=3, draws=4, seed=3, pairs="none", progress=False)
    scale, shift = (1.0, 0.0) if vartype == "SPIN" else (0.5, 0.5)
    assert found.record.sample.tolist() == [(scale * run.draws[k % 3, k // 3] + shift).tolist() for k in range(10)]
    assert found.record.num_occurrences.tolist() == [1] * 10
    assert found.info["mean"] == pytest.approx(scale * run.mean + shift)
    assert found.info["mean_se"] == pytest.approx(scale * run.mean_se)


def test_ising_and_qubo_share_the_keywords():
    """Catches keywords that do not reach the sampler from the other two methods."""
    sampler = BouncySampler()
    keywords = {"num_reads": 7, "beta": 0.5, "seed": 3, "aggregate": False}
    ising = sampler.sample_ising(H, J, **keywords)
    assert ising.info["beta"] == 0.5
    again = sampler.sample(dimod.BinaryQuadraticModel.from_ising(H, J), **keywords)
    assert again == ising
    qubo = sampler.sample_qubo({("a", "a"): 1.0, ("a", "b"): -2.0}, **keywords)
    assert len(qubo) == 7
    assert qubo.vartype is dimod.BINARY
    assert set(np.unique(qubo.record.sample)) <= {0, 1}


def test_info_can_be_written_to_a_file():
    """Catches NumPy numbers, masked arrays or objects in `info`, which JSON refuses, and an unreported seed."""
    bqm = dimod.BinaryQuadraticModel(H, J, "BINARY")
    for seed in (5, None, np.random.SeedSequence(5)):
        found = BouncySampler().sample(bqm, num_reads=50, seed=seed)
        back = dimod.SampleSet.from_serializable(json.loads(json.dumps(found.to_serializable())))
        assert back == found
        assert back.info["sampler"] == "bps-gaussian"
        assert isinstance(back.info["warnings"], list)
    found = BouncySampler().sample(bqm, num_reads=50)
    again = BouncySampler().sample(bqm, num_reads=50, seed=found.info["seed"])
    assert again == found


@pytest.mark.parametrize("vartype", ["SPIN", "BINARY"])
def test_chains_start_at_the_initial_states(vartype):
    """Catches initial states whose values are put on the wrong variables or not converted: nothing moves here."""
    spin = dimod.BinaryQuadraticModel({}, {("z", "b"): -50.0, ("b", "a"): 50.0}, "SPIN")
    bqm = spin.change_vartype(vartype, inplace=False)
    low = -1 if vartype == "SPIN" else 0
    first, second = {"a": low, "b": 1, "z": 1}, {"a": 1, "b": low, "z": low}
    for states, rows in (
        (first, [first, first]),
        ([first, second], [first, second]),
        (dimod.SampleSet.from_samples({"a": 1, "b": -1, "z": -1}, "SPIN", 0), [second, second]),
    ):
        with pytest.warns(bouncy.NoFlipWarning):
            found = BouncySampler().sample(
                bqm, num_reads=2, chains=2, initial_states=states, aggregate=False, warmup=0, seed=1
            )
        assert [dict(sample) for sample in found.samples(sorted_by=None)] == rows


def test_a_model_without_variables_has_one_state():
    """Catches reads that are lost where there is nothing to sample."""
    bqm = dimod.BinaryQuadraticModel({}, {}, 1.5, "BINARY")
    assert BouncySampler().sample(bqm, num_reads=6).record.num_occurrences.tolist() == [6]
    found = BouncySampler().sample(bqm, num_reads=6, aggregate=False)
    assert found.record.energy.tolist() == [1.5] * 6


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"num_reads": 0}, ValueError, "num_reads must be an integer >= 1"),
        ({"chains": 1.5}, TypeError, "chains must be an integer"),
        ({"beta": 0.0}, ValueError, "beta must be a finite number > 0"),
        ({"aggregate": "yes"}, TypeError, "aggregate must be True or False"),
        ({"sampler": "annealer"}, ValueError, "sampler is 'annealer'; known names"),
        ({"initial_states": {"a": 1}}, ValueError, "initial_states has no value for the variable 'z'"),
        ({"initial_states": [{"z": 1, "b": 1, "a": 1}] * 3}, ValueError, "initial_states has 3 states; expected 1"),
        ({"initial_states": {"z": 1, "b": 0, "a": 1}}, ValueError, "initial_states must hold spins"),
    ],
)
def test_faults_are_named(keywords, error, message):
    """Catches wrong arguments that are accepted, or errors about another function's arguments."""
    with pytest.raises(error, match=message):
        BouncySampler().sample_ising(H, J, **keywords)


def test_other_objects_are_refused():
    """Catches an unexplained attribute error when the argument is not a binary quadratic model."""
    with pytest.raises(TypeError, match=r"must be a dimod.BinaryQuadraticModel"):
        BouncySampler().sample(H)


def test_without_dimod_the_extra_is_named(monkeypatch):
    """Catches an error at import that does not say what to install."""
    monkeypatch.setitem(sys.modules, "dimod", None)
    monkeypatch.delitem(sys.modules, "bouncy.dimod")
    with pytest.raises(ImportError, match=r"bouncy.dimod needs dimod.*bouncy\[dimod\]"):
        importlib.import_module("bouncy.dimod")
