"""The result of a run."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bouncy._validation import check_count
from bouncy.recorders.pairs import NoPairs
from bouncy.results import moments
from bouncy.results.batches import Estimate, student_quantile
from bouncy.results.diagnostics import diagnose
from bouncy.results.summary import summary_text
from bouncy.run.chain import Chain
from bouncy.run.workers import run_chains
from bouncy.samplers.contract import Sampler
from bouncy.targets.contract import Target, TargetError

if TYPE_CHECKING:
    import xarray


class Run:
    """Chains of a sampler on a target, and what they found.

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
    diagnostics : dict
        Counts, effective sample sizes, R-hat, z-scores of the event rates, and warnings in plain words.
    seed : int or SeedSequence
        What to pass as `seed` to get the same bytes again.
    """

    def __init__(self, target: Target, sampler: Sampler, chains: list[Chain], options: dict[str, Any]) -> None:
        self.target = target
        self.sampler = sampler
        self.seed = options["seed"]
        self.warmup = options["warmup"]
        self.thin: int = options["thin"]
        self._options = options
        self._keep = options["keep"]
        self._threads = options["threads"]
        self._progress = options["progress"]
        self._chains = chains
        self._warmup_seconds = sum(chain.cpu_seconds for chain in chains)
        d, n = target.d, len(chains)
        self.draws = np.empty((n, 0, d), np.int8)
        self.log_prob = np.empty((n, 0))
        self.magnetisation = np.empty((n, 0))

    def extend(self, draws: int) -> Run:
        """Continue the same chains for more draws, in place, and return the run.

        The result has the same bytes as that of one run of the total length. A run that is interrupted while it is
        extended stays as it was.
        """
        draws = check_count("draws", draws)
        before = [chain.state() for chain in self._chains]
        kept = self.draws, self.log_prob, self.magnetisation
        try:
            self.take(draws)
        except BaseException as error:
            if isinstance(error, TargetError):
                error.run = None  # its chains are about to go back
            for chain, state in zip(self._chains, before, strict=True):
                chain.restore(state)
            self.draws, self.log_prob, self.magnetisation = kept
            self._hand_out()
            raise
        return self

    def take(self, draws: int) -> None:
        """Take more draws, and leave the chains where they are when that fails: `extend` without a way back."""
        self._allocate(draws)
        errors = run_chains(
            self._chains, draws * self.sweeps_per_draw, self._threads, self._progress, self.sampler.name
        )
        self._forget()
        if errors:
            errors[0].run = self._without({error.chain for error in errors})
            raise errors[0]

    def _without(self, numbers: set[int | None]) -> Run | None:
        """Return a run of the chains with other numbers, or None where there is none."""
        left = [k for k, chain in enumerate(self._chains) if chain.number not in numbers]
        if not left:
            return None
        run = Run(self.target, self.sampler, [self._chains[k] for k in left], self._options)
        run._warmup_seconds = self._warmup_seconds * len(left) / len(self._chains)
        run.draws, run.log_prob, run.magnetisation = self.draws[left], self.log_prob[left], self.magnetisation[left]
        run._hand_out()
        return run

    def _allocate(self, more: int) -> None:
        """Make room for more draws and tell the recorders."""
        n = len(self._chains)
        if self._keep == "draws":
            self.draws = np.concatenate([self.draws, np.zeros((n, more, self.target.d), np.int8)], axis=1)
        self.log_prob = np.concatenate([self.log_prob, np.zeros((n, more))], axis=1)
        self.magnetisation = np.concatenate([self.magnetisation, np.zeros((n, more))], axis=1)
        self._hand_out()

    def _hand_out(self) -> None:
        for k, chain in enumerate(self._chains):
            chain.recorder = chain.recorder._replace(
                draws=self.draws[k], log_prob=self.log_prob[k], magnetisation=self.magnetisation[k]
            )

    def _forget(self) -> None:
        """Drop everything that was computed from a shorter run."""
        for name in ("_sums", "_mean", "_path_mean", "_pair_mean", "_path_pair_mean", "diagnostics"):
            self.__dict__.pop(name, None)

    @property
    def sweeps_per_draw(self) -> int:
        """Sweeps from one draw to the next."""
        return self.thin * self.sampler.stride

    @property
    def sampling_seconds(self) -> float:
        """CPU seconds of all chains in compiled code after warm-up, without compilation."""
        return sum(chain.cpu_seconds for chain in self._chains) - self._warmup_seconds

    @cached_property
    def _sums(self) -> moments.Sums:
        return moments.read_sums(self._chains)

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
    def mean(self) -> NDArray[np.float64]:
        return self._mean.mean

    @property
    def mean_se(self) -> NDArray[np.float64]:
        return self._mean.standard_error

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

    def interval(
        self, name: Literal["mean", "path_mean", "pair_mean", "path_pair_mean"] = "mean", level: float = 0.95
    ) -> tuple[moments.Matrix, moments.Matrix]:
        """Return the ends of the confidence intervals of a level, by the Student quantile of the batches."""
        if name not in ("mean", "path_mean", "pair_mean", "path_pair_mean"):
            raise ValueError(f"name is {name!r}; expected mean, path_mean, pair_mean or path_pair_mean")
        half = student_quantile(level, self._mean.degrees_of_freedom) * getattr(self, f"{name}_se")
        return getattr(self, name) - half, getattr(self, name) + half

    @cached_property
    def diagnostics(self) -> dict[str, Any]:
        return diagnose(self, self._sums)

    def summary(self) -> None:
        """Print a table of means, error bars and diagnostics."""
        print(summary_text(self))

    def to_arviz(self) -> xarray.DataTree:
        """Return the draws as a tree of labelled arrays in the layout of ArviZ; needs the extra `arviz`."""
        from bouncy.results.arviz import to_datatree

        return to_datatree(self)

    def __copy__(self) -> Run:
        """Return an independent run: two that shared their chains could not both be extended."""
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        chains, draws = self.log_prob.shape
        return f"<Run of {self.sampler.name} on {self.target!r}: {chains} chains x {draws} draws>"
