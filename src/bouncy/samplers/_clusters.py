"""Base class of Swendsen-Wang and Wolff: samplers of ferromagnets that flip clusters of spins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from bouncy._samplable import Samplable
from bouncy.samplers.contract import Sampler
from bouncy.targets.mrf import MRF
from bouncy.workers.contract import Plan, Worker

# Shortest default warm-up, in sweeps.
_WARMUP = 200


class ClusterSampler(Sampler):
    """A sampler that flips clusters of a `bouncy.MRF` whose couplings are ferromagnetic once some sites are flipped."""

    @property
    @abstractmethod
    def worker(self) -> type[Any]:
        """Class of the workers that run it."""

    @property
    def finds_all_clusters(self) -> bool:
        """Whether a sweep finds all clusters, so that means and pairs are estimated from them as well."""
        found: bool = self.worker.finds_all
        return found

    def accepts(self, target: Samplable[Any]) -> bool:
        return isinstance(target, MRF)

    def workers(
        self, target: Any, plan: Plan, seeds: Sequence[np.random.SeedSequence], starts: Sequence[Any]
    ) -> list[Worker]:
        from bouncy.workers.clusters import new_cluster_workers  # which few runs need

        return new_cluster_workers(target, self, plan, seeds, starts)

    def refusal_of_lanes(self, target: Samplable[Any]) -> str | None:
        return f"{self.name} flips clusters, which are others in each chain: there is no clock to share"

    def sweep_time(self, d: int) -> float:
        return 1.0

    def default_warmup(self, target: Samplable[Any], draws: int) -> int:
        return max(_WARMUP, draws // 4)

    def event_rates(self, d: int, time: float) -> tuple[float | None, float | None, float]:
        """Return that the rates of events are not known, as `SpinSampler.event_rates` does where they are."""
        return None, None, 0.0
