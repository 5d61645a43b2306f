"""Layer L5: nominal 95 % intervals cover the truth in 95 % of runs."""

import numpy as np
import pytest

import bouncy
from bouncy.samplers import names
from conftest import base_seed
from helpers.statistics import coverage_test

# Random scans differ from systematic ones by their clocks alone, which have tests of their own.
SAMPLERS = sorted(
    name for name in names() if not name.endswith("-random") and name not in ("auto", "tempered", "metropolis-swap")
)
TARGETS = {
    "weak": bouncy.MRF.random(10, sigma_M=0.1, sigma_r=0.2, seed=1),
    "strong": bouncy.MRF.random(6, sigma_M=0.5, sigma_r=0.5, seed=2),
    "lattice": bouncy.MRF(bouncy.MRF.ising((3, 4), coupling=0.25).M.toarray(), r=-0.1),
}


def _covered(name: str, sampler: str, replications: int) -> dict[str, np.ndarray]:
    target = TARGETS[name]
    exact = bouncy.exact(target)
    pairs = np.triu_indices(target.d, 1)
    covered: dict[str, list[np.ndarray]] = {"mean": [], "path_mean": [], "pair_mean": [], "path_pair_mean": []}
    for k in range(replications):
        run = bouncy.sample(target, sampler, chains=4, draws=500, warmup=100, seed=base_seed() + k, threads=1)
        estimates = {
            "mean": run.interval("mean"),
            "path_mean": run.interval("path_mean"),
            "pair_mean": [end[pairs] for end in run.interval("pair_mean")],
            "path_pair_mean": [end[pairs] for end in run.interval("path_pair_mean")],
        }
        for kind, (low, high) in estimates.items():
            truth = exact.pair_mean[pairs] if "pair" in kind else exact.mean
            covered[kind].append((low <= truth) & (truth <= high))
    return {kind: np.array(rows) for kind, rows in covered.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sampler"),
    [
        (name, sampler)
        for name in TARGETS
        for sampler in SAMPLERS
        if sampler == "bps-gaussian"
        or (name == "weak" and sampler in ("gibbs", "metropolis"))
        or (name == "strong" and sampler == "hmc")
    ],
)
def test_intervals_cover_closely(name, sampler):
    """Catches error bars that are off by 10 %: coverage between 91.5 and 98 % over 400 runs."""
    for kind, covered in _covered(name, sampler, 400).items():
        coverage_test(covered, 0.95, 0.915, 0.98, alpha=5e-3, name=f"{kind} of {name}").check()
