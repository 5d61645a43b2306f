"""The result of a run that flips clusters of spins."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy.recorders.batches import Batch
from bouncy.results.moments import Matrix, Quantity, as_matrix, means_recorded, spread
from bouncy.results.spins import SpinRun
from bouncy.results.summary import Summary, spin_summary

Array = NDArray[np.float64]
# Batches of all chains together from which a jackknife can tell anything.
_FEWEST = 2


class Moments(NamedTuple):
    """Moments of the magnetisation m, the mean spin, with standard errors.

    The Binder cumulant is 1 - m4 / (3 m2^2): 2/3 where spins are ordered, 0 where they are not. Its standard error is
    by leaving out each batch in turn.
    """

    m2: float
    m2_se: float
    m4: float
    m4_se: float
    binder: float
    binder_se: float


def _moments(batch: Batch) -> Array:
    return batch["moments"]


class ClusterRun(SpinRun):
    """Chains that flip clusters of spins, and what they found.

    Attributes
    ----------
    mean, mean_se : ndarray, shape (d,)
        E[s_i] and its standard error. Exactly 0 where no coupling ties a site to a field. Elsewhere from conditional
        means or, of Swendsen-Wang, from these and from clusters, in the proportion with the smallest squared error.
    pair_mean, pair_mean_se : ndarray, shape (d, d), or csr_array
        E[s_i s_j] from the conditional means; of Swendsen-Wang with `pairs="all"`, for pairs that do not interact,
        from these and from clusters, in the proportion with the smallest squared error.
    magnetisation_moments : Moments
        E[m^2], E[m^4] and the Binder cumulant, with standard errors. Of Swendsen-Wang from clusters; of Wolff m^4, and
        in fields m^2, from the states at the ends of sweeps.
    """

    @cached_property
    def _in_a_field(self) -> NDArray[np.bool_]:
        return self._data.constants["clusters.in_a_field"]

    @cached_property
    def _shares(self) -> tuple[float, float]:
        """Shares of clusters in the estimates of means and of pairs."""
        known = self._data.open[0]
        share_of_means = share_of_pairs = 0.0
        if "cluster_mean" in known and self._in_a_field.any():
            share_of_means = self._sums.best_share("mean", "cluster_mean", self._in_a_field)
        if "cluster_pair_mean" in known:
            apart = ~self._data.constants["clusters.coupled"]
            share_of_pairs = self._sums.best_share("pair_mean", "cluster_pair_mean", apart)
        return share_of_means, share_of_pairs

    @property
    def _mean_quantity(self) -> Quantity:
        share, lit = self._shares[0], self._in_a_field

        def quantity(batch: Batch) -> Array:
            return np.where(lit, _mixed(batch, "mean", share), 0.0)

        return quantity

    @property
    def _pair_quantity(self) -> Quantity:
        share = self._shares[1]
        coupled = self._data.constants.get("clusters.coupled", True)

        def quantity(batch: Batch) -> Array:
            return np.where(coupled, batch["pair_mean"], _mixed(batch, "pair_mean", share))

        return quantity

    @cached_property
    def mean(self) -> Array:
        mean = np.clip(self._data.sums().mean(self._mean_quantity, means_recorded), -1.0, 1.0)
        mean.flags.writeable = False
        return mean

    @cached_property
    def mean_se(self) -> Array:
        error, sweeps = self._sums.error(self._mean_quantity, means_recorded), self._data.recorded * self.chains
        if sweeps:  # a field that never held a site may have done so once more
            error = np.maximum(error, np.where(self._in_a_field, self._shares[0] / sweeps, 0.0))
        error.flags.writeable = False
        return error

    @cached_property
    def pair_mean(self) -> Matrix:
        return self._pair_means(self._pair_quantity, means_recorded)

    @cached_property
    def pair_mean_se(self) -> Matrix:
        self._require_pairs()
        return as_matrix(self._sums.error(self._pair_quantity, means_recorded), self._data.constants, 0.0)

    @cached_property
    def magnetisation_moments(self) -> Moments:
        sums = self._sums
        m2, m4 = self._data.sums().mean(_moments, 1.0)
        errors, binder_se = sums.error(_moments, 1.0), np.nan
        if sums.batches * sums.chains >= _FEWEST:
            full = sums.full(_moments).reshape(-1, 2)
            binder_se = float(spread(_binder(*(full.sum(axis=0) - full).T / (sums.length * (len(full) - 1)))))
        return Moments(float(m2), float(errors[0]), float(m4), float(errors[1]), float(_binder(m2, m4)), binder_se)

    def _diagnose(self) -> dict[str, Any]:
        return super()._diagnose() | {"magnetisation_moments": self.magnetisation_moments._asdict()}

    def _summary(self) -> Summary:
        found = self.magnetisation_moments
        return spin_summary(self, [
            f"{'moments':>14}: m^2 {found.m2:.4g} +- {found.m2_se:.2g}, m^4 {found.m4:.4g} +- {found.m4_se:.2g}, "
            f"Binder cumulant {found.binder:.4g} +- {found.binder_se:.2g}",
        ])  # fmt: skip


def _mixed(batch: Batch, name: str, share: float) -> Array:
    """Return conditional means, and of clusters their share."""
    plain = batch[name]
    return plain if share == 0.0 else (1.0 - share) * plain + share * batch[f"cluster_{name}"]


def _binder(m2: Array | float, m4: Array | float) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1.0 - np.asarray(m4) / (3.0 * np.square(m2)))
