"""The result of a run on spins."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._validation import check_real_array
from bouncy.recorders.controls import unpack_couplings
from bouncy.results.controls import controlled_means
from bouncy.results.diagnostics import Rates, diagnose, disagreements, is_unexpected, judge_trace, warnings_of
from bouncy.results.moments import Matrix, Quantity, Sums, Weight, as_matrix, means_recorded, recorded
from bouncy.results.overlap import modes_of
from bouncy.results.replay import Path
from bouncy.results.run import Run
from bouncy.results.summary import Summary, spin_summary

if TYPE_CHECKING:
    import xarray

Array = NDArray[np.float64]


# Sums over a batch: conditional means, and time integrals, of spins and of pairs.
_MEAN, _PATH, _PAIR_MEAN, _PAIR_PATH = map(recorded, ("mean", "path", "pair_mean", "pair_path"))


# By how much rounding to single precision, as lanes do, may shift a mean.
_SINGLE = 1e-7
# From one value of a spin, or of a product of two, to the other.
_SPREAD = 2.0


def _spin_mean(mean: Array) -> Array:
    return _read_only(np.clip(mean, -1.0, 1.0))


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


class Best(NamedTuple):
    """The most probable state that was seen, (d,), and its log p as `target.log_prob` gives it."""

    state: NDArray[np.int8]
    log_prob: float


class _OfOthers:
    """An attribute of other runs, tempered ones unless another sampler is named, which refers to them."""

    def __init__(self, name: str, needs: str = "a ladder of temperatures", sampler: str = "tempered") -> None:
        self._message = f"{name} needs {needs}; sample again with {sampler!r}"

    def __get__(self, run: object, kind: type) -> Any:
        raise AttributeError(self._message)


class SpinRun(Run):
    """Chains of a sampler on a binary target, and what they found.

    Attributes
    ----------
    draws : ndarray of int8, shape (chain, draw, d)
        States on a regular grid of the clock's time; no draws with `keep="means"`.
    log_prob, magnetisation : ndarray, shape (chain, draw)
        Unnormalised log p(s) and the mean spin of each draw; kept even when the states are not.
    mean, mean_se : ndarray, shape (d,)
        E[s_i] from the conditional means, recorded after every d attempted flips (with ladders and HMC at the end of
        each sweep), and its standard error. On an `MRF` that is not too large, control variates take out what is linear
        in the other spins.
    path_mean, path_mean_se : ndarray, shape (d,)
        E[s_i] as plain time average over the whole path, and its standard error. That of a site that hardly ever moved
        is a bound and never 0: one more flip to the other value and back may have been missed.
    pair_mean, pair_mean_se : ndarray, shape (d, d), or csr_array
        E[s_i s_j] as average of (s_i t_j + s_j t_i)/2, t the conditional means. With `pairs="edges"` a sparse array
        with an entry for each pair that interacts.
    path_pair_mean, path_pair_mean_se
        E[s_i s_j] as plain time average over the whole path, with standard errors of the same kind.
    """

    _estimates: ClassVar[tuple[str, ...]] = ("mean", "path_mean", "pair_mean", "path_pair_mean")
    _dtype = np.int8
    log_z: Any = _OfOthers("log_z")
    log_z_se: Any = _OfOthers("log_z_se")
    log_z_bounds: Any = _OfOthers("log_z_bounds")
    ladder: Any = _OfOthers("ladder")
    curve: Any = _OfOthers("curve")
    magnetisation_moments: Any = _OfOthers("magnetisation_moments", "a sampler of clusters", "swendsen-wang")

    @cached_property
    def draws(self) -> NDArray[np.int8]:
        if self._data.setup.keep != "path":
            return super().draws
        ends = np.arange(1, self.draws_per_chain + 1) * self.sweeps_per_draw
        return np.stack([path.after_sweeps(ends) for path in self._paths()]) if len(ends) else super().draws

    @cached_property
    def magnetisation(self) -> NDArray[np.float64]:
        return self._trace("magnetisation")

    def _scalars(self) -> dict[str, NDArray[np.float64]]:
        return {"log_prob": self.log_prob, "magnetisation": self.magnetisation}

    def _disagreement(self) -> NDArray[np.float64]:
        return self._sums.disagreement(_PATH)

    @cached_property
    def mean(self) -> NDArray[np.float64]:
        return _spin_mean(self._controlled.mean(_MEAN, means_recorded))

    @cached_property
    def mean_se(self) -> NDArray[np.float64]:
        error = replace(self._controlled, factor=self._sums.factor).error(_MEAN, means_recorded)
        return _read_only(np.maximum(error, _SINGLE) if self._data.setup.lanes > 1 else error)

    @cached_property
    def _controlled(self) -> Sums:
        """Batches of the conditional means with control variates, as far as there are any."""
        A, sums = unpack_couplings(self._data.constants), self._data.sums()
        if A is None:
            return sums
        spread = sums.mean(lambda batch: batch["spread"][:-1], lambda batch: batch["spread"][-1:])
        return controlled_means(sums, self._sums.factor, A, spread, lambda batch: A @ batch["state"])

    @cached_property
    def path_mean(self) -> NDArray[np.float64]:
        return _spin_mean(self._data.sums().mean(_PATH, self._data.sweep_time))

    @cached_property
    def path_mean_se(self) -> NDArray[np.float64]:
        return _read_only(self._path_error(_PATH, _SPREAD))

    @cached_property
    def pair_mean(self) -> Matrix:
        return self._pair_means(_PAIR_MEAN, means_recorded)

    @cached_property
    def pair_mean_se(self) -> Matrix:
        self._require_pairs()
        return as_matrix(self._sums.error(_PAIR_MEAN, means_recorded), self._data.constants, 0.0)

    @cached_property
    def path_pair_mean(self) -> Matrix:
        return self._pair_means(_PAIR_PATH, self._data.sweep_time)

    @cached_property
    def path_pair_mean_se(self) -> Matrix:
        self._require_pairs()
        return as_matrix(self._path_error(_PAIR_PATH, _SPREAD), self._data.constants, 0.0)

    def _pair_means(self, quantity: Quantity, weight: Weight) -> Matrix:
        self._require_pairs()
        return as_matrix(np.clip(self._data.sums().mean(quantity, weight), -1.0, 1.0), self._data.constants, 1.0)

    def _require_pairs(self) -> None:
        if self._data.setup.pairs == "none":
            raise AttributeError(
                f"pair means were not recorded (d = {self.target.d}); sample again with pairs='all', which costs O(d) "
                "per flip and a few d x d matrices, or with pairs='edges' for the pairs that interact"
            )

    @property
    def best(self) -> Best:
        """The most probable state among the draws, and its log p."""
        if not self.draws.shape[1] or np.isnan(self.log_prob).all():
            raise AttributeError("the best state is one of the draws whose log p is known, and there are none")
        chain, draw = np.unravel_index(np.nanargmax(self.log_prob), self.log_prob.shape)
        return Best(self.draws[chain, draw].copy(), float(self.log_prob[chain, draw]))

    # The path itself

    def _paths(self) -> list[Path]:
        """Return the path of each chain."""
        if self._data.setup.keep != "path":
            raise AttributeError("the path was not kept; sample again with keep='path'")
        records = self._data.records
        rows = records.rows
        return [  # none if the run was interrupted in its warm-up
            Path(start, rows.array(f"flip_site.{k}")[0], rows.array(f"flip_time.{k}")[0], rows.array("flip_count")[k])
            for k, start in enumerate(records.start)
        ]

    @property
    def flips(self) -> tuple[NDArray[Any], ...]:
        """All flips of each chain, with `keep="path"`: structured arrays with fields `time` and `site`."""
        return tuple(path.flips(self._data.sweep_time) for path in self._paths())

    @property
    def start(self) -> NDArray[np.int8]:
        """Spins at time 0, where the recording began, (chain, d), with `keep="path"`."""
        return np.array([path.start for path in self._paths()], np.int8).reshape(-1, self.target.d)

    @property
    def duration(self) -> float:
        """Length of the recorded path of each chain."""
        return float(self._data.recorded * self._data.sweep_time)

    def replay(self, times: ArrayLike) -> NDArray[np.int8]:
        """Return the spins of all chains at some times of the recorded path, (chain, time, d); needs `keep="path"`.

        Parameters
        ----------
        times : array_like
            Times between 0 and `duration`. Spins that flip at just that time have flipped.

        Examples
        --------
        >>> import bouncy
        >>> run = bouncy.sample(bouncy.MRF.random(5, seed=0), draws=100, keep="path", seed=0)
        >>> run.replay([0.0, run.duration]).shape
        (4, 2, 5)
        """
        wanted = check_real_array("times", times).reshape(-1)
        if not ((wanted >= 0.0) & (wanted <= self.duration)).all():
            raise ValueError(
                f"times must be between 0 and {self.duration:g}, the duration of the run, got {times!r:.60}"
            )
        return np.stack([path.at(wanted, self._data.sweep_time) for path in self._paths()])

    def _diagnose(self) -> dict[str, Any]:
        rates = Rates(*self.sampler.event_rates(self.target.d, self.duration))
        report = diagnose(self, rates, self._scalars(), lambda draws: draws, self.flips_per_site == 0)
        report["ess"]["abs_magnetisation"], report["rhat"]["abs_magnetisation"] = judge_trace(abs(self.magnetisation))
        modes = modes_of(self.draws)
        report["overlap"] = None if modes is None else {"within": modes.within, "between": modes.between}
        if self._data.setup.choice:
            report["auto"] = self._data.setup.choice
        report["warnings"] = warnings_of(self, report, self._doubtful(report["flips"]))
        if report["flips"] == 0:
            what = "accepted" if report["hits"] else "attempted"
            report["warnings"].append(f"no flip was {what}: the chains never left their first state after warm-up")
        way_out = "" if self._data.setup.is_tempered else "; sample again with 'tempered'"
        report["warnings"] += disagreements(self._disagreement(), way_out)
        report["warnings"] += [] if modes is None else modes.remarks()
        return report

    def _inclusion(self) -> tuple[Array, Array] | None:
        return ((1.0 + self.mean) / 2.0, self.mean_se / 2.0) if self.target.selects_variables else None

    def _doubtful(self, flips: int) -> NDArray[np.bool_]:
        """Say which sites, if they are constant, should not be, (d,).

        A variable that belongs in the model for certain never leaves it, and its conditional means say so. A site is
        stuck where these give the other value a probability that adds up over sweeps, or draws, to more than chance
        can miss, where chains hold on to different values, or where nothing moves at all. HMC has one chance in a
        trajectory, because the energy of a site does not change at a wall that is too high.
        """
        if flips == 0:
            return np.ones(self.target.d, np.bool_)
        sums, setup = self._data.sums(), self._data.setup
        frozen = self.flips_per_site == 0
        value = self.draws[:, 0] if self.draws.shape[1] else np.sign(sums.of_chains(_PATH))
        chances = np.where(frozen, setup.sampler.stride, setup.per_draw)
        expected = (sums.of_chains(means_recorded) - value * sums.of_chains(_MEAN)).sum(axis=0) / 2.0 / chances
        return np.asarray(is_unexpected(expected) | (frozen & (value != value[:1]).any(axis=0)))

    def _summary(self) -> Summary:
        return spin_summary(self)

    def _to_arviz(self) -> xarray.DataTree:
        from bouncy.results.arviz import to_datatree

        return to_datatree(self, "s", {"magnetisation": self.magnetisation})
