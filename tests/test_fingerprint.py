"""The fingerprint of a model: the same for the same model everywhere, another one for another model."""

import subprocess
import sys

import numpy as np
import pytest

import bouncy

X = np.array([[1.0, 0.2], [0.3, -1.0], [0.5, 0.5]])


def within(scale=1.0, sweeps=1):
    """Return a scheme in which the scale of two normal variables is a parameter."""
    return bouncy.Within(
        lambda scale: bouncy.Gaussian([0.0, 0.0], cov=scale**2 * np.eye(2)),
        {"scale": lambda x, parameters, generator: 1.0},
        {"scale": scale},
        sweeps=sweeps,
    )


MODELS = {
    "dense": lambda: bouncy.MRF.random(6, seed=0),
    "another seed": lambda: bouncy.MRF.random(6, seed=1),
    "a field": lambda: bouncy.MRF.random(6, sigma_r=0.2, seed=0),
    "smaller": lambda: bouncy.MRF.random(5, seed=0),
    "lattice": lambda: bouncy.MRF.ising((2, 3), 0.3),
    "hotter lattice": lambda: bouncy.MRF.ising((2, 3), 0.3000001),
    "gaussian": lambda: bouncy.Gaussian([0.0, 0.0], cov=np.eye(2)),
    "shifted": lambda: bouncy.Gaussian([0.0, 1e-3], cov=np.eye(2)),
    "truncated": lambda: bouncy.TruncatedGaussian([0.0, 0.0], cov=np.eye(2), lower=0.0),
    "slab": lambda: bouncy.SpikeSlab(X, X[:, 0], inclusion=0.5, slab_scale=2.0, noise_scale=1.0),
    "within": within,
    "within elsewhere": lambda: within(2.0),
    "within less often": lambda: within(1.0, 2),
}


def test_models_have_fingerprints_of_their_own():
    """Catches two models that are taken for one, and one that is taken for two when it is built again."""
    found = {name: build().fingerprint for name, build in MODELS.items()}
    assert len(set(found.values())) == len(MODELS)
    assert found == {name: build().fingerprint for name, build in MODELS.items()}
    assert all(len(text) == 32 and int(text, 16) >= 0 for text in found.values())


def test_labels_belong_to_a_model():
    """Catches results that are read under the names of other sites."""
    every = ["a", "b"], ["b", "a"], [0, 1]
    first, second, numbered = (bouncy.MRF.random(2, seed=0, labels=labels) for labels in every)
    assert first.fingerprint != second.fingerprint
    assert numbered.fingerprint == bouncy.MRF.random(2, seed=0).fingerprint


def test_rounding_is_no_other_model():
    """Catches a fingerprint that another machine's rounding changes; a few parts in 10^15 here."""
    M = bouncy.MRF.random(8, seed=0).M
    r = np.linspace(-1.0, 1.0, 8)
    assert bouncy.MRF(M, r).fingerprint == bouncy.MRF(M * (1.0 + 1e-15), r).fingerprint
    assert bouncy.MRF(M, r).fingerprint != bouncy.MRF(M * (1.0 + 1e-7), r).fingerprint


def test_numbers_that_cancel_are_no_other_model():
    """Catches 1e-17 taken for something else than zero: log p of opposite fields on equal spins."""
    target = bouncy.MRF(np.zeros((2, 2)), [0.1, -0.1])
    other = bouncy.MRF(np.zeros((2, 2)), [0.1 + 1e-17, -0.1 + 2e-17])
    assert target.fingerprint == other.fingerprint


def test_random_generators_are_left_alone():
    """Catches a fingerprint that changes what a user draws next."""
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()  # noqa: NPY002
    assert bouncy.MRF.random(4, seed=0).fingerprint != within().fingerprint
    after = np.random.get_state()  # noqa: NPY002
    assert (before[1] == after[1]).all()
    assert before[2:] == after[2:]


def test_the_same_in_another_process():
    """Catches a digest of addresses or of Python's own hashes, which differ from process to process."""

    class Named:
        pass

    program = (
        "import bouncy\nclass Named: pass\n"
        "target = bouncy.MRF.random(3, seed=0, labels=[Named(), 'b', ('c', 1)])\n"
        "print(target.fingerprint)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    target = bouncy.MRF.random(3, seed=0, labels=[Named(), "b", ("c", 1)])
    Named.__qualname__ = "Named"
    assert done.stdout.strip() == target.fingerprint


def test_a_function_that_fails_has_a_fingerprint():
    """Catches a model that cannot be saved because one of the states that are looked at is no state of it."""

    def log_prob(s):
        if s[0] < 0:
            raise ValueError("not there")
        return 0.5 * s[1]

    target = bouncy.Custom(2, log_prob=log_prob, compile=False)
    with pytest.raises(bouncy.TargetError):
        target.log_prob([-1, 1])
    assert target.fingerprint == bouncy.Custom(2, log_prob=log_prob, compile=False).fingerprint
