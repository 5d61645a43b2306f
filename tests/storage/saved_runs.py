"""Runs of every kind that can be saved, and everything that they know."""

import functools

import numpy as np

import bouncy
from storage.comparing import everything

X = np.array([[1.0, 0.2], [0.3, -1.0], [0.5, 0.5]])


def named():
    """Return three spins whose labels are of several kinds."""
    return bouncy.MRF.random(3, seed=1, labels=["a", ("b", 1), 7])


def scheme():
    """Return two normal variables whose scale is a parameter, and so is a vector."""
    return bouncy.Within(
        lambda scale, both: bouncy.Gaussian([0.0, 0.0], cov=scale**2 * np.eye(2)),
        {
            "scale": lambda x, parameters, generator: 1.0 + 0.1 * generator.random(),
            "both": lambda x, parameters, generator: x.copy(),
        },
        {"scale": 1.0, "both": [0.0, 0.0]},
    )


TARGETS = {
    "spins": named,
    "lattice": lambda: bouncy.MRF.ising((3, 4), 0.3),
    "frozen": lambda: bouncy.MRF(np.zeros((2, 2)), [40.0, 0.0]),
    "truncated": lambda: bouncy.TruncatedGaussian([0.0, 0.5], cov=[[1.0, 0.3], [0.3, 1.0]], lower=0.0),
    "slab": lambda: bouncy.SpikeSlab(X, X[:, 0], inclusion=0.5, slab_scale=2.0, noise_scale=1.0),
    "scheme": scheme,
}
OPTIONS = {
    "spins": {"seed": np.random.SeedSequence(2**70).spawn(2)[1]},
    "lattice": {"pairs": "edges", "keep": "means", "thin": 2},
    "frozen": {"pairs": "none", "chains": 1},
    "truncated": {},
    "slab": {"pairs": "none", "keep": "means"},
    "scheme": {},
}


@functools.cache
def run_of(kind):
    """Return a short run on one of the targets."""
    return bouncy.sample(TARGETS[kind](), **{"chains": 2, "draws": 41, "warmup": 20, "seed": 5, **OPTIONS[kind]})


def told(run):
    """Return all results of a run as bytes, and all that it tells as text, by name."""
    texts = {f"diagnostics {name}": repr(value) for name, value in run.diagnostics.items()}
    texts |= {"seed": repr(run.seed), "repr": repr(run), "summary": str(run.summary()), "labels": run.target.labels}
    return everything(run) | texts | {"seconds": run.sampling_seconds, "sampler": run.sampler}
