"""Workers that flip clusters of spins: all of them at once, or those of some random sites, one after the other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._random import new_state
from bouncy.recorders.batches import Batch
from bouncy.recorders.clusters import new_cluster_sums
from bouncy.recorders.recorder import new_recorder
from bouncy.targets.gauge import Ferromagnet, ferromagnet, in_a_field
from bouncy.targets.mrf import MRF
from bouncy.workers.cluster_kernel import Growth, advance_all_clusters, advance_single_clusters
from bouncy.workers.contract import Plan
from bouncy.workers.spins import OneChainWorker, new_pairs

# Words of random bits that are drawn together: small enough for the fastest cache.
_WORDS = 256


class ClusterWorker(OneChainWorker):
    """One chain of a cluster sampler.

    Parameters
    ----------
    target, sampler
        What to sample, and how.
    view : Ferromagnet
        The target in its gauge.
    plan : Plan
        What is recorded.
    seed : SeedSequence
        Source of all randomness.
    start : ndarray or None
        Spins to start from, shape (d,); None takes those of the target.
    first : int
        Index of the chain.
    """

    view: Ferromagnet
    # Whether a sweep finds all clusters, which then tell means and pairs as well.
    finds_all = True

    def __init__(
        self,
        target: MRF,
        sampler: Any,
        view: Ferromagnet,
        plan: Plan,
        seed: np.random.SeedSequence,
        start: NDArray[np.int8] | None,
        first: int = 0,
    ) -> None:
        super().__init__(first, plan, sampler.sweep_time(target.d))
        start_seed, sampler_seed = seed.spawn(2)
        d = target.d
        self.view = view
        self.s = target.start(np.random.default_rng(start_seed)) if start is None else start.copy()
        self.recorder = new_recorder(d, new_pairs(target, plan.pairs), by_attempts=False)
        self.sums = new_cluster_sums(d, self.finds_all, plan.pairs)
        self._rng = new_state(sampler_seed)
        self._members = np.empty(d, np.uint32)
        self._spins = np.empty((2, d), np.int8)

    @property
    def growth(self) -> Growth:
        """The generator and scratch of the loop."""
        degree = int(np.diff(self.view.indptr).max(initial=0))
        words = np.empty(max(-(-degree // 4), min(_WORDS, 1 + self.view.indices.size // 4)), np.uint64)
        bits = words.view(np.uint16)
        drawn, queue = np.empty(bits.size, np.uint8), np.empty(self.view.indices.size + self.s.size + 1, np.uint32)
        return Growth(self._rng, words, bits, drawn, queue, self._members, *self._spins)

    def retarget(self, target: MRF) -> None:
        """Go on from the same spins on another target of as many sites."""
        if target.d != self.s.size:
            raise ValueError(
                f"the target has changed from {self.s.size} sites to {target.d}; expected as many as before"
            )
        self.view = ferromagnet(target, self.plan.pairs, self.view)

    @abstractmethod
    def _advance(self, growth: Growth, sweeps: int) -> int:
        """Call the compiled loop, and return how many sweeps are left."""

    def _run(self, sweeps: int) -> None:
        growth = self.growth
        while sweeps := self._advance(growth, sweeps):
            self._make_room()

    def open_sums(self) -> list[Batch]:
        (batch,) = super().open_sums()
        return [{**batch, **self.sums.sums()}]

    def _take_batches(self) -> list[Batch]:
        (batch,) = super()._take_batches()
        found = {**batch, **self.sums.sums()}
        self.sums.clear()
        return [found]

    def constants(self) -> dict[str, NDArray[Any]]:
        known = {**super().constants(), "clusters.in_a_field": in_a_field(self.view)}
        if self.sums.pair_mean.size:
            d = self.s.size
            coupled = np.zeros((d, d), np.bool_)
            coupled[np.repeat(np.arange(d), np.diff(self.view.indptr).astype(np.int64)), self.view.indices] = True
            known["clusters.coupled"] = coupled.ravel()
        return known

    def _parts(self) -> dict[str, Any]:
        return {"s": self.s, "growth": self.growth, "recorder": self.recorder, "clusters": self.sums}


class AllClustersWorker(ClusterWorker):
    """One chain of Swendsen and Wang."""

    def _advance(self, growth: Growth, sweeps: int) -> int:
        left: int = advance_all_clusters(self.view, self.recorder, self.sums, growth, self.s, sweeps)
        return left


class SingleClustersWorker(ClusterWorker):
    """One chain of Wolff: clusters of random sites, the same number in each sweep."""

    finds_all = False

    def __init__(self, target: MRF, sampler: Any, *arguments: Any) -> None:
        super().__init__(target, sampler, *arguments)
        self._clusters = int(sampler.clusters)

    def _advance(self, growth: Growth, sweeps: int) -> int:
        left: int = advance_single_clusters(self.view, self.recorder, self.sums, growth, self.s, self._clusters, sweeps)
        return left


def new_cluster_workers(
    target: MRF,
    sampler: Any,
    plan: Plan,
    seeds: Sequence[np.random.SeedSequence],
    starts: Sequence[NDArray[np.int8] | None],
) -> list[Any]:
    """Return a worker for each chain, which share the target in its gauge."""
    view = ferromagnet(target, plan.pairs)
    each = enumerate(zip(seeds, starts, strict=True))
    return [sampler.worker(target, sampler, view, plan, seed, start, k) for k, (seed, start) in each]
