"""Runs of every kind that can be saved, and everything that they know, to be compared bit by bit."""

import functools

import numpy as np
import scipy.sparse

import bouncy

X = np.array([[1.0, 0.2], [0.3, -1.0], [0.5, 0.5]])


def named():
    """Return three spins whose labels are of several kinds."""
    target = bouncy.MRF.random(3, seed=1)
    target.labels = ["a", ("b", 1), 7]
    return target


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
FIELDS = {
    "mean", "mean_se", "path_mean", "path_mean_se", "pair_mean", "pair_mean_se", "path_pair_mean", "path_pair_mean_se",
    "variance", "variance_se", "covariance", "covariance_se", "inclusion", "inclusion_se", "draws", "log_prob",
    "magnetisation", "flips_per_site", "sampling_seconds", "warmup", "thin", "sampler", "sweeps_per_draw",
}  # fmt: skip


@functools.cache
def run_of(kind):
    """Return a short run on one of the targets."""
    return bouncy.sample(TARGETS[kind](), **{"chains": 2, "draws": 41, "warmup": 20, "seed": 5, **OPTIONS[kind]})


def everything(run):
    """Return all results of a run as text and bytes, by name."""
    found = {name: _bits(getattr(run, name)) for name in FIELDS if hasattr(run, name)}
    found |= {f"parameter {name}": _bits(trace) for name, trace in run.parameters.items()}
    found |= {f"diagnostics {name}": repr(value) for name, value in run.diagnostics.items()}
    found["seed"], found["repr"], found["summary"] = repr(run.seed), repr(run), str(run.summary())
    found["labels"] = run.target.labels
    if hasattr(run, "quantile"):
        found["quantile"] = [_bits(part) for part in run.quantile([0.1, 0.5, 0.9])]
        found["probability"] = [_bits(part) for part in run.probability(0.1, 0.7)]
        found["density"] = [repr([_bits(part) for part in run.density(i)[:2]]) for i in range(run.target.d)]
        found["combination"] = [_bits(part) for part in run.combination(np.ones(run.target.d))]
    return found


def _bits(value):
    if scipy.sparse.issparse(value):
        return [_bits(part) for part in (value.data, value.indices, value.indptr)]
    return (value.dtype.str, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else repr(value)
