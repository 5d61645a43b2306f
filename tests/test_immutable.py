"""Targets never change: not by assignment, not through their arrays, not through those that they were built from.

Targets are those of the conformance tests, so that a new one is looked at without editing tests.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
import scipy.sparse

import bouncy
import bouncy.piecewise.targets
import bouncy.targets
from bouncy._samplable import Samplable
from bouncy.piecewise import Cells, Potential


def scheme():
    return bouncy.Within(
        lambda scale: bouncy.Gaussian([0.0, 0.0], cov=scale[0] ** 2 * np.eye(2)),
        {"scale": lambda x, parameters, generator: [1.0, 1.0]},
        {"scale": [1.0, 2.0]},
    )


ZOO = {
    **bouncy.targets.examples(),
    **bouncy.piecewise.targets.examples(),
    "clamped": lambda: bouncy.Custom(3, flip_cost=lambda s, i: 0.2 * s[i]).clamp({0: 1}),
    "tempered": lambda: bouncy.Custom(3, flip_cost=lambda s, i: 0.2 * s[i]).tempered(0.5),
    "lattice": lambda: bouncy.MRF.ising((2, 3), 0.3),
    "sparse-gaussian": lambda: bouncy.Gaussian(0.0, precision=scipy.sparse.eye_array(60)),
    "given": lambda: ZOO["spike-slab"]().given(noise_scale=2.0),
    "within": scheme,
}
BASES = {bouncy.Target, bouncy.PathTarget, bouncy.PiecewiseTarget}
every_target = pytest.mark.parametrize("name", ZOO)
# Of these, functions cannot be pickled.
AT_HOME = ("clamped", "tempered", "within")


@functools.cache
def example(name, travelled=False):
    """Return a target that has been looked at, and, where it can be, sent to another process."""
    target = ZOO[name]()
    assert target.fingerprint
    return pickle.loads(pickle.dumps(target)) if travelled and name not in AT_HOME else target


def attributes(target):
    """Return the public attributes of a target that are no methods, by name."""
    names = [name for name in dir(target) if not name.startswith("_") and name != "json_kind"]
    found = {name: getattr(target, name) for name in names}
    return {name: value for name, value in found.items() if not callable(value) or name == "build"}


def arrays(value, where=""):
    """Yield (name, array) of all arrays that can be reached from a public attribute."""
    if isinstance(value, np.ndarray):
        yield where, value
    elif scipy.sparse.issparse(value):
        for part in ("data", "indices", "indptr"):
            yield f"{where}.{part}", getattr(value, part)
    elif isinstance(value, list | tuple):
        for k, item in enumerate(value):
            yield from arrays(item, f"{where}[{k}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from arrays(item, f"{where}[{key!r}]")
    elif is_dataclass(value):
        for field in fields(value):
            yield from arrays(getattr(value, field.name), f"{where}.{field.name}")


def test_the_zoo_has_every_public_target():
    """Catches a target that these tests leave out."""
    public = {getattr(bouncy, name) for name in bouncy.__all__ if isinstance(getattr(bouncy, name), type)}
    assert {kind for kind in public if issubclass(kind, Samplable)} - BASES <= {type(example(name)) for name in ZOO}


@every_target
@pytest.mark.parametrize("travelled", [False, True])
def test_attributes_cannot_be_assigned(name, travelled):
    """Catches a label, a temperature or a scale that is set after the fingerprint was computed, and new attributes."""
    target = example(name, travelled)
    before, labels = target.fingerprint, target.labels
    for attribute in (*attributes(target), "labels", "log_prob", "something_new"):
        with pytest.raises(AttributeError, match=rf"its {attribute} cannot be set|no setter"):
            setattr(target, attribute, None)
        with pytest.raises(AttributeError):
            delattr(target, attribute)
    assert target.fingerprint == before
    assert target.labels == labels


@every_target
@pytest.mark.parametrize("travelled", [False, True])
def test_arrays_are_read_only(name, travelled):
    """Catches a matrix that a user changes in place, with caches and fingerprints left as they were."""
    target = example(name, travelled)
    found = [pair for attribute, value in attributes(target).items() for pair in arrays(value, attribute)]
    assert [where for where, array in found if array.flags.writeable] == []
    if target.kind == "paths" and name != "within":
        own = ["walls[0][0]"] if name == "density-well" else ["potential.linear", "potential.cells.constant"]
        assert {*own, "cells.lower", "scale"} <= {where for where, _ in found}


@every_target
def test_mappings_are_read_only(name):
    """Catches an update that is replaced in a scheme that has been sampled."""
    for value in attributes(example(name)).values():
        assert not isinstance(value, dict | set | bytearray)


t = np.arange(8.0)
X = np.column_stack([np.sin(t), np.cos(2.0 * t), np.sin(t * t)])
M = np.array([[0.0, 0.3, -0.2], [0.3, 0.0, 0.4], [-0.2, 0.4, 0.0]])
R = np.array([0.1, -0.2, 0.3])
P = M + np.eye(3)


def sparse(matrix):
    return scipy.sparse.csr_array(matrix)


def own_cost(s, i, data):
    return data[i] * s[i]


def own_log_prob(y, data):
    return -0.5 * (y - data) @ (y - data)


def own_gradient(y, out, data):
    out[:] = data - y


# What each public target is built from, as arrays and sparse matrices, and how.
INPUTS = {
    "mrf": ([M, R], bouncy.MRF),
    "mrf-sparse": ([sparse(M), R], bouncy.MRF),
    "polynomial": ([np.array([[0, 1], [1, 2]]), np.array([0.5, -0.3])], bouncy.Polynomial),
    "rbm": ([P[:2], R[:2], R], bouncy.RBM),
    "visible": ([P[:2], R[:2], R], lambda *inputs: bouncy.RBM(*inputs).marginal()),
    "factors": ([np.array([[1.0, 2.0], [3.0, 1.0]])], lambda table: bouncy.FactorGraph([(("a", "b"), table)])),
    "factors-log": ([P[:2, :2]], lambda table: bouncy.FactorGraph([(("a", "b"), table)], log=True)),
    "selection": (
        [X, X[:, 0] + t % 3, np.full(3, 0.4), np.full(3, 0.7)],
        lambda X, y, inclusion, slab: bouncy.VariableSelection(
            X, y, prior="independent", inclusion=inclusion, slab_scale=slab
        ),
    ),
    "custom": ([R], lambda data: bouncy.Custom(3, flip_cost=own_cost, data=data)),
    "density": (
        [R, P[0], R, R + 1.0],
        lambda data, normal, initial, scale: bouncy.Density(
            3, own_log_prob, own_gradient, walls=[(normal, 0.1)], data=data, initial=initial, scale=scale, compile=False
        ),
    ),
    "spike-slab": (
        [X, X[:, 0] + t % 3, np.full(3, 0.4), np.full(3, 0.7)],
        lambda X, y, inclusion, slab: bouncy.SpikeSlab(
            X, y, inclusion=inclusion, slab_scale=slab, noise_scale=1.0, intercept=False
        ),
    ),
    "lasso": (
        [X, X[:, 0] + t % 3, np.full(3, 0.4)],
        lambda X, y, penalty: bouncy.BayesianLasso(X, y, penalty=penalty, noise_scale=1.0, intercept=False),
    ),
    "gaussian": ([R, P], bouncy.Gaussian),
    "gaussian-sparse": ([R, sparse(P)], lambda mean, P: bouncy.Gaussian(mean, precision=P)),
    "truncated": (
        [R, P, R - 1.0, R + 2.0],
        lambda mean, cov, lower, upper: bouncy.TruncatedGaussian(mean, cov, lower=lower, upper=upper),
    ),
    "mixed": ([M, R, P, R, P, R - 1.0, R + 2.0], bouncy.MixedBinaryGaussian),
    "mixed-sparse": ([sparse(M), R, sparse(P), R, sparse(P), R - 1.0, R + 2.0], bouncy.MixedBinaryGaussian),
    "within": (
        [R],
        lambda initial: bouncy.Within(
            lambda mean: bouncy.Gaussian(mean, cov=np.eye(3)), {"mean": lambda x, *_: x}, {"mean": initial}
        ),
    ),
}


def test_every_public_target_has_inputs():
    """Catches a target whose inputs these tests leave alone."""
    built = {type(build(*inputs)) for inputs, build in INPUTS.values()}
    public = {getattr(bouncy, name) for name in bouncy.__all__ if isinstance(getattr(bouncy, name), type)}
    assert {kind for kind in public if issubclass(kind, Samplable)} - {
        bouncy.Target,
        bouncy.PathTarget,
        bouncy.PiecewiseTarget,
    } <= built


def told(target):
    """Return everything that a user can ask of a target: log p at some states, the arrays, a start."""
    start = target.sampled.start(np.random.default_rng(0))
    values = [array.tolist() for value in attributes(target).values() for _, array in arrays(value)]
    states = [start] if target.kind == "spins" else [target.sampled.cells.values(start)]
    return target.sampled.log_prob(np.array(states)).tolist(), start.tolist(), values, target.fingerprint


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("early", [False, True])
def test_inputs_are_copied(name, early):
    """Catches a target that changes with the arrays it was built from, whether or not it was used before."""
    inputs, build = INPUTS[name]
    expected = told(build(*(part.copy() for part in inputs)))
    given = [part.copy() for part in inputs]
    target = build(*given)
    if early:
        told(target)
    for part in given:
        array = part.data if scipy.sparse.issparse(part) else part
        assert array.flags.writeable
        array[...] = 0
    assert told(target) == expected


def test_arrays_of_a_callers_class_stay_writable():
    """Catches a user's own array that becomes read-only because a target has it as an attribute."""

    class Own(bouncy.PiecewiseTarget):
        def __init__(self, linear):
            self.d, self.linear = linear.size, linear

        @property
        def potential(self):
            return Potential(np.eye(self.d), self.linear, Cells.alike(self.d, [-np.inf, np.inf]))

        def start(self, generator):
            return generator.standard_normal(self.d)

    linear = np.ones(3)
    target = Own(linear)
    with pytest.raises(ValueError, match="read-only"):
        target.linear[0] = 2.0
    with pytest.raises(AttributeError, match="build another Own"):
        target.linear = linear
    linear[0] = 2.0
    assert linear[0] == 2.0


def test_other_hyperparameters_are_another_target():
    """Catches a fingerprint that a target passes on to one with another noise."""
    target = bouncy.piecewise.targets.examples()["lasso"]()
    before = target.fingerprint
    assert target.given(noise_scale=2.0).fingerprint != before
