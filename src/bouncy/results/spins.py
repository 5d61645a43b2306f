"""The result of a run on spins."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bouncy.recorders.pairs import NoPairs
from bouncy.results import moments
from bouncy.results.batches import Estimate
from bouncy.results.diagnostics import Rates, diagnose, disagreements, warnings_of
from bouncy.results.run import Run
from bouncy.results.summary import Summary, spin_summary

if TYPE_CHECKING:
    import xarray


class SpinRun(Run):
    """Chains of a sampler on a binary target, and what they found.

    Attributes
    ----------
    draws : ndarray of int8, shape (chain, draw, d)
        States on a regular grid of the clock's time; no draws with `keep="means"`.
    log_prob, magnetisation : ndarray, shape (chain, draw)
        Unnormalised log p(s) and the mean spin of each draw; kept even when the states are not.
    mean, mean_se : ndarray, shape (d,)
        E[s_i] from the conditional means recorded at the end of each sweep, and its standard error.
    path_mean, path_mean_se : ndarray, shape (d,)
        E[s_i] as plain time average over the whole path, and its standard error.
    pair_mean, pair_mean_se : ndarray, shape (d, d), or csr_array
        E[s_i s_j] as average of (s_i t_j + s_j t_i)/2, t the conditional means. With `pairs="edges"` a sparse array
        with an entry for each pair that interacts.
    path_pair_mean, path_pair_mean_se
        E[s_i s_j] as plain time average over the whole path.
    """

    _estimates = ("mean", "path_mean", "pair_mean", "path_pair_mean")
    _computed = ("_mean", "_path_mean", "_pair_mean", "_path_pair_mean")

    draws: NDArray[np.int8]
    magnetisation: NDArray[np.float64]

    def _new_traces(self, draws: int) -> dict[str, NDArray[Any]]:
        n = len(self._chains)
        states = draws if self._keep == "draws" else 0
        return {
            "draws": np.zeros((n, states, self.target.d), np.int8),
            "log_prob": np.zeros((n, draws)),
            "magnetisation": np.zeros((n, draws)),
        }

    @cached_property
    def _mean(self) -> Estimate:
        return moments.spin_means(self._sums)

    @cached_property
    def _path_mean(self) -> Estimate:
        return moments.spin_path_means(self._sums)

    @cached_property
    def _pair_mean(self) -> tuple[moments.Matrix, moments.Matrix]:
        self._require_pairs()
        return moments.pair_means(self._sums)

    @cached_property
    def _path_pair_mean(self) -> tuple[moments.Matrix, moments.Matrix]:
        self._require_pairs()
        return moments.pair_path_means(self._sums)

    def _require_pairs(self) -> None:
        if isinstance(self._chains[0].recorder.pairs, NoPairs):
            raise AttributeError(
                f"pair means were not recorded (d = {self.target.d}); sample again with pairs='all', which costs O(d) "
                "per flip and a few d x d matrices, or with pairs='edges' for the pairs that interact"
            )

    @property
    def path_mean(self) -> NDArray[np.float64]:
        return self._path_mean.mean

    @property
    def path_mean_se(self) -> NDArray[np.float64]:
        return self._path_mean.standard_error

    @property
    def pair_mean(self) -> moments.Matrix:
        return self._pair_mean[0]

    @property
    def pair_mean_se(self) -> moments.Matrix:
        return self._pair_mean[1]

    @property
    def path_pair_mean(self) -> moments.Matrix:
        return self._path_pair_mean[0]

    @property
    def path_pair_mean_se(self) -> moments.Matrix:
        return self._path_pair_mean[1]

    def _diagnose(self) -> dict[str, Any]:
        d, clock = self.target.d, self.sampler.clock
        slow = clock.slow_variance(d, self.sampler.refreshment * self._sums.sweeps)
        scalars = {"energy": self.log_prob, "magnetisation": self.magnetisation}
        rates = Rates(clock.hit_rate(d), clock.bounce_rate(d), slow)
        report = diagnose(self, self._sums, rates, scalars, lambda draws: draws, self.flips_per_site == 0)
        report["warnings"] = warnings_of(self, report)
        if report["flips"] == 0:
            what = "accepted" if report["hits"] else "attempted"
            report["warnings"].append(f"no flip was {what}: the chains never left their first state after warm-up")
        report["warnings"] += disagreements(moments.disagreement(self._sums))
        return report

    def _summary(self) -> Summary:
        return spin_summary(self)

    def _to_arviz(self) -> xarray.DataTree:
        from bouncy.results.arviz import to_datatree

        return to_datatree(self, "s", {"magnetisation": self.magnetisation})
