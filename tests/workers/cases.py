"""Workers of every kind: each clock, each choice of pairs, continuous samplers, and blocks of a Gibbs scheme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import bouncy
from bouncy import targets
from bouncy.piecewise.targets import examples
from bouncy.recorders.batches import Batch
from bouncy.samplers import ClusterSampler, as_sampler, names
from bouncy.workers.contract import Keep, Plan, Slice, Worker, joined

SPINS = bouncy.MRF.ising((2, 3), coupling=0.3, field=0.1)
DENSE = bouncy.MRF.random(17, seed=2)
BOX = bouncy.TruncatedGaussian([0.5, -1.0], cov=[[1.0, 0.6], [0.6, 2.0]], lower=[-0.5, -np.inf], upper=[2.0, 1.0])
NARROW = examples()["truncated gaussian, narrow"]()
WELL = examples()["density-well"]()
FORBIDDEN = targets.examples()["factor-graph-walls"]()
SLAB = bouncy.SpikeSlab(np.array([[1.0, 0.2], [0.3, -1.0], [0.5, 0.5]]), [0.5, -0.2, 0.4], inclusion=0.5,
                        slab_scale=1.0, noise_scale=1.0)  # fmt: skip


def _draw_scale(x: Any, parameters: Any, generator: np.random.Generator) -> Any:
    return np.sqrt((2.0 + x @ x / 2) / generator.gamma(3 + x.size / 2))


def _draw_field(x: Any, parameters: Any, generator: np.random.Generator) -> Any:
    return generator.normal(x.sum(), 1.0)


SCALED = bouncy.Within(
    lambda scale: bouncy.Gaussian([0.0, 0.0], cov=scale**2 * np.eye(2)),
    {"scale": _draw_scale},
    {"scale": 1.0},
    sweeps=3,
)
FIELD = bouncy.Within(lambda h: bouncy.MRF(np.zeros((2, 2)), -h * np.ones(2)), {"h": _draw_field}, {"h": 0.0}, sweeps=2)

# Target, sampler and pairs of a worker, by name.
CASES = {
    **{name: (SPINS, name, "all") for name in sorted({*names()} - {"auto", "tempered", "metropolis-swap"})},
    "metropolis-swap": (SPINS.fixed_sum(3), "metropolis-swap", "all"),
    **{name: (SPINS, name, "all") for name in names(ClusterSampler)},
    "tempered": (SPINS, "tempered", "all"),
    **{f"bps-gaussian-{pairs}": (SPINS, "bps-gaussian", pairs) for pairs in ("none", "edges")},
    "path-bps": (BOX, "bps", "all"),
    "path-bps-narrow": (NARROW, "bps", "all"),
    "path-hmc": (BOX, "hmc", "all"),
    "path-slab": (SLAB, "bps", "all"),
    "path-gibbs": (SLAB, "gibbs", "all"),
    "path-density": (WELL, "bps", "all"),
    "block-bps": (SCALED, "bps", "all"),
    "block-hmc": (SCALED, "hmc", "all"),
    "block-gibbs": (SCALED, "gibbs-random", "all"),
    "block-spins": (FIELD, "gibbs", "all"),
    "ladder-walls": (FORBIDDEN, "tempered", "none"),
    "ladder-pair": (SPINS, bouncy.Tempered(ladder=[0, 0.3, 1], sweeps_per_swap=1, clusters=[1, 2]), "all"),
    "flock-dense": (DENSE, "bps-gaussian", "all"),
    "flock-sparse": (SPINS, "gibbs-random", "edges"),
}
# Chains of a worker, where it has more than one.
CHAINS = {"flock-dense": 3, "flock-sparse": 11}


def new_worker(case: str, *, slots: int = 4, per_draw: int = 1, seed: int = 4) -> Any:
    """Return a worker that has made no sweeps, of one chain unless it is a flock."""
    target, sampler, pairs = CASES[case]
    chains = CHAINS.get(case, 1)
    plan = Plan(per_draw, slots, pairs, chains)
    seeds = [np.random.SeedSequence([seed, k] if k else seed) for k in range(chains)]
    found, _ = as_sampler(target, sampler).prepared(target, np.random.SeedSequence(1), pairs)
    (worker,) = target.workers(found, plan, seeds, [None] * chains)
    return worker


def recording(case: str, **options: Any) -> Any:
    """Return a worker that has made some sweeps, in two stages as in a warm-up, and begins to record."""
    worker = new_worker(case, **options)
    for sweeps in (4, 3):
        worker.advance(sweeps)
        type(worker).record_anew([worker])
    return worker


def kept(case: str) -> list[str]:
    """Return what a worker can keep of its draws; the path, for which loops are compiled again, with two clocks."""
    return ["nothing", "means", "draws", *(["path"] if case in ("bps-gaussian", "hmc") else [])]


def advanced(worker: Worker, pieces: Sequence[int], keep: Keep) -> Slice:
    """Advance a worker by some slices, looking at its open sums after each, and return them as one."""
    slices = []
    for sweeps in pieces:
        slices.append(worker.advance(sweeps, keep))
        worker.open_sums()
    return joined(slices)


def compare(found: Any, expected: Any, same: Callable[[Any, Any], Any]) -> None:
    """Compare sets of arrays by name."""
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        assert found[name].shape == array.shape, name
        same(found[name], array)


def same_bytes(found: Any, expected: Any) -> None:
    assert found.tobytes() == expected.tobytes()


def total(batches: Sequence[Batch]) -> dict[str, Any]:
    """Return the sums over all of some batches, by name."""
    return {name: np.sum([batch[name] for batch in batches], axis=0) for name in batches[0]}
