"""Swendsen-Wang: all clusters of a ferromagnet, each turned over with probability 1/2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bouncy.samplers._clusters import ClusterSampler
from bouncy.samplers.contract import Named


@dataclass(frozen=True)
class SwendsenWang(ClusterSampler):
    """Swendsen-Wang sampler: joins aligned neighbours at random, and turns each cluster over with probability 1/2.

    For a `bouncy.MRF` whose couplings are ferromagnetic (M_ij < 0) once some sites are flipped, with fields of any
    sign; others are refused, with a frustrated cycle. A sweep draws all bonds anew, at a cost of O(d + edges).

    Notes
    -----
    Two aligned neighbours are joined with probability 1 - exp(-2 |M_ij|), and a spin that follows its field is held by
    it with probability 1 - exp(-2 |r_i|). A cluster that no field holds is turned over or not with equal probability.
    Means and pairs are estimated from conditional means and from clusters (docs/ferromagnets.md), and
    `run.magnetisation_moments` has m^2, m^4 and the Binder cumulant.

    References
    ----------
    Swendsen & Wang, "Nonuniversal critical dynamics in Monte Carlo simulations", Phys. Rev. Lett. 58 (1987) 86.

    Examples
    --------
    >>> import bouncy
    >>> run = bouncy.sample(bouncy.MRF.ising((8, 8), coupling=0.44), "swendsen-wang", draws=500, seed=0)
    >>> bool(abs(run.magnetisation_moments.m2 - 0.62) < 0.05)
    True
    """

    @property
    def name(self) -> str:
        return "swendsen-wang"

    @property
    def worker(self) -> type[Any]:
        from bouncy.workers.clusters import AllClustersWorker  # which few runs need

        return AllClustersWorker


NAMED = (
    Named(
        SwendsenWang(),
        "ferromagnets (an `MRF` without frustration, in fields of any sign) near their transition and below it: flips "
        "whole clusters, all of them in each sweep; m^2, m^4 and the Binder cumulant from clusters",
        "#882255",
    ),
)
