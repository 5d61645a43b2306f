"""Wolff: the clusters of random sites of a ferromagnet, turned over one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bouncy._validation import check_count
from bouncy.recorders.contract import HITS
from bouncy.samplers._clusters import ClusterSampler
from bouncy.samplers.contract import Named
from bouncy.targets.mrf import MRF
from bouncy.workers.contract import Plan

# Rounds of the pilot, and their sweeps.
_ROUNDS, _SWEEPS = 8, 32


@dataclass(frozen=True)
class Wolff(ClusterSampler):
    """Wolff sampler: grows the cluster of a random site, and turns it over unless a field holds it.

    For the same targets as `bouncy.SwendsenWang`. Random sites are more often in large clusters, which matter most near
    a transition; in strong fields most clusters are held, and Swendsen-Wang is the better choice.

    Parameters
    ----------
    clusters : int, optional
        Clusters in a sweep. By default as many as have d sites together on average, which a pilot finds before the run;
        `run.sampler` has the number. It never depends on the clusters of the run itself: sweeps that end when enough
        sites were met would end after large clusters more often.

    References
    ----------
    Wolff, "Collective Monte Carlo updating for spin systems", Phys. Rev. Lett. 62 (1989) 361.

    Examples
    --------
    >>> import bouncy
    >>> run = bouncy.sample(bouncy.MRF.ising((8, 8), coupling=0.44), bouncy.Wolff(clusters=2), draws=500, seed=0)
    >>> bool(abs(run.magnetisation_moments.m2 - 0.62) < 0.05)
    True
    """

    clusters: int | None = None

    def __post_init__(self) -> None:
        if self.clusters is not None:
            check_count("clusters", self.clusters)

    @property
    def name(self) -> str:
        return "wolff"

    @property
    def worker(self) -> type[Any]:
        from bouncy.workers.clusters import SingleClustersWorker  # which few runs need

        return SingleClustersWorker

    def prepared(self, target: Any, seed: np.random.SeedSequence, pairs: str = "none") -> tuple[Wolff, str]:
        """Return the sampler with the number of clusters in a sweep, found by a pilot."""
        if self.clusters is not None:
            return self, ""
        if not isinstance(target, MRF):
            raise ValueError("clusters must be given for a block of a scheme, which has other clusters in each sweep")
        clusters, start = 1, None
        for child in seed.spawn(_ROUNDS):
            (worker,) = replace(self, clusters=clusters).workers(target, Plan(pairs=pairs), [child], [start])
            batches = [*worker.advance(_SWEEPS).batches[0], *worker.open_sums()]
            sites = sum(float(batch["events"][HITS]) for batch in batches) / _SWEEPS
            clusters, start = max(1, round(clusters * target.d / sites)), worker.x[0]
        return replace(self, clusters=clusters), ""


NAMED = (
    Named(
        Wolff(),
        "the targets of Swendsen-Wang: clusters of random sites, one after the other; the smallest errors at a "
        "transition without field, not for strong fields, which hold most clusters",
        "#aa4499",
    ),
)
