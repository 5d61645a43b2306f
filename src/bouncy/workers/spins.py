"""Workers of spins: what they have in common, and the one that carries a single chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._dispatch import check_bounds, check_range
from bouncy.clocks.by_address import linked
from bouncy.recorders.batches import Batch
from bouncy.recorders.contract import MEANS, SWEEP_END
from bouncy.recorders.pairs import Pairs, all_pairs, edge_pairs
from bouncy.recorders.recorder import new_recorder, open_sums, take_batch
from bouncy.recorders.trail import new_trail, no_trail
from bouncy.targets.conditioning import as_linked
from bouncy.targets.constraints import same_constraint
from bouncy.targets.contract import Target, TargetError, raise_failure, shown
from bouncy.workers.contract import Keep, Plan, Rows
from bouncy.workers.kernel import BUFFER, FLIPS_PER_SITE, advance, settle
from bouncy.workers.loop import LoopWorker
from bouncy.workers.swap_kernel import UNKNOWN, advance_pairs

# Random starts that are tried before a target with impossible states is said to need one that is given.
_STARTS = 1000


class SpinLoopWorker(LoopWorker):
    """A worker of spins.

    Attributes
    ----------
    s : ndarray of int8
        The present spins; the first axis is that of the sites.
    """

    s: NDArray[np.int8]
    _couplings: Mapping[str, NDArray[Any]] = MappingProxyType({})

    def mean_weight(self, batch: Batch, sweeps: int) -> float:
        return float(batch["events"][MEANS])

    def empty_rows(self, what: str) -> Rows:
        return spin_rows(len(self.s), what)

    def _controls(self, target: Target) -> bool:
        """Keep what control variates need of a target, and return whether there are any."""
        self._couplings = target._packed_couplings
        return bool(self._couplings)

    def constants(self) -> dict[str, NDArray[Any]]:
        if self.plan.pairs != "edges":
            return dict(self._couplings)
        pairs = {f"pairs.{name}": getattr(self.recorder.pairs, name) for name in ("indptr", "indices", "edge")}
        return {**pairs, **self._couplings}

    @classmethod
    def record_anew(cls, workers: Sequence[Self]) -> None:
        for worker in workers:
            worker.begun = worker.sweeps
            worker._take_batches()
            worker.recorder.flips[:] = 0
            worker.recorder.due[:] = SWEEP_END

    def _check(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._check(state)
        if not (np.abs(state["s"]) == 1).all():
            raise ValueError("the state of a worker must hold spins, -1 or 1")


class OneChainWorker(SpinLoopWorker):
    """A worker of spins that carries one chain."""

    @property
    def x(self) -> NDArray[np.int8]:
        return self.s[None].copy()

    def _make_room(self) -> None:
        """Empty a recorder that is full. A target that fails stops the worker for good, and its error is raised."""
        self._raise_failure()
        self._empty_trail()

    # What is recorded

    def _new_rows(self, keep: Keep, sweeps: int) -> Rows:
        self._flips: list[Rows] = []
        trail = new_trail(self.s.size, sweeps) if keep.what == "path" else no_trail()
        self.recorder = self.recorder._replace(trail=trail)
        return super()._new_rows(keep, sweeps)

    def _finished_rows(self, rows: Rows) -> list[Rows]:
        """Return the rows with the path, if it is kept.

        A path is the sites and times of its flips since the beginning of their sweep, (flip,), and the number of flips
        in each sweep, (sweep,).
        """
        if not self.recorder.trail.ends.size:
            return [rows]
        self._empty_trail()
        return [rows | {name: np.concatenate([part[name] for part in self._flips]) for name in self._flips[0]}]

    def _empty_trail(self) -> None:
        """Move the flips in the trail to those that the slice returns."""
        trail = self.recorder.trail
        n, sweeps, _ = trail.tally
        if n > trail.site.size:
            raise RuntimeError(f"{n} flips in {sweeps} sweeps of {self.s.size} sites, which is a bug; report it")
        counts = np.diff(trail.ends[:sweeps], prepend=0).astype(np.int32)
        self._flips.append(
            {"flip_site": trail.site[:n].copy(), "flip_time": trail.time[:n].copy(), "flip_count": counts}
        )
        trail.tally[:2] = 0

    def bytes_per_sweep(self, keep: Keep) -> float:
        return super().bytes_per_sweep(keep) + (12.0 * self.s.size + 4.0 if keep.what == "path" else 0.0)

    def open_sums(self) -> list[Batch]:
        return [open_sums(self.recorder, self.s)]

    def _take_batches(self) -> list[Batch]:
        return [take_batch(self.recorder, self.s)]

    def totals(self) -> list[dict[str, NDArray[Any]]]:
        return [{"flips": self.recorder.flips.copy()}]


class SpinWorker(OneChainWorker):
    """One chain of a sampler on a binary target.

    Parameters
    ----------
    target, sampler
        What to sample, and how.
    plan : Plan
        What is recorded.
    seed : SeedSequence
        Source of all randomness.
    start : ndarray or None
        Spins to start from, shape (d,); None takes those of the target.
    first : int
        Index of the chain.
    """

    def __init__(
        self,
        target: Target,
        sampler: Any,
        plan: Plan,
        seed: np.random.SeedSequence,
        start: NDArray[np.int8] | None,
        first: int = 0,
    ) -> None:
        super().__init__(first, plan, sampler.sweep_time(target.d))
        start_seed, sampler_seed = seed.spawn(2)
        self._in_pairs = sampler.clock.family == "pairs"
        self._constraint = target.constraint
        self.view = self._view_of(target)
        self.s = random_start(target, self.view, start_seed) if start is None else given_start(self.view, start)
        self.clock, self.toll = sampler.start(target, sampler_seed)
        self._ticking = linked(self.clock)
        self.recorder = new_recorder(
            target.d,
            new_pairs(target, plan.pairs),
            sampler.clock.by_attempts,
            target.constraint,
            self._controls(target),
        )
        self.flips_since_resync = np.zeros(1, np.int64)
        self._times = np.empty(BUFFER)
        self._sites = np.empty(BUFFER, np.int32)

    def retarget(self, target: Target) -> None:
        """Go on from the same spins on another target of as many sites."""
        if target.d != self.s.size:
            raise ValueError(
                f"the target has changed from {self.s.size} sites to {target.d}; expected as many as before"
            )
        if not same_constraint(self._constraint, target.constraint):
            raise ValueError("the target has other groups of sites than before; expected the same constraint")
        self.view = self._view_of(target)
        _settle_at(self.view, self.s)
        self.flips_since_resync[:] = 0

    def _view_of(self, target: Target) -> Any:
        """Return the target as the loop sees it: that of pairs is compiled once for all targets."""
        return as_linked(target.view(), target.d) if self._in_pairs else target.view()

    def _run(self, sweeps: int) -> None:
        loop = advance_pairs if self._in_pairs else advance
        while True:
            sweeps = loop(
                self._ticking, self.toll, self.view, self.recorder, self.s, self.flips_since_resync,
                self._times, self._sites, self.sweep_time, sweeps,
            )  # fmt: skip
            if not sweeps:
                return
            if sweeps == UNKNOWN:
                raise unknown_swap(self.s, self.first)
            self._make_room()

    def _parts(self) -> dict[str, Any]:
        return {
            "s": self.s,
            "flips_since_resync": self.flips_since_resync,
            "clock": self.clock,
            "toll": self.toll,
            "view": self.view,
            "recorder": self.recorder,
        }

    def _check(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._check(state)
        check_range("flips_since_resync", state["flips_since_resync"], 0, FLIPS_PER_SITE * self.s.size)
        if np.array_equal(state["s"], self.s):  # as in a worker that was made to be restored
            check_bounds(state, "view", self.view)


def unknown_swap(s: NDArray[np.int8], chain: int | None = None) -> TargetError:
    """Return the error of a swap whose cost cannot be known."""
    error = TargetError(
        "a swap leads through a state of probability zero, and log p of the states on either side is not known: costs "
        "of +inf are walls, and do not tell what is behind them; give log_prob too",
        "log_prob",
        None,
        s.copy(),
    )
    error.chain = chain
    return error


def new_pairs(target: Target, pairs: str) -> Pairs:
    """Return an empty recorder of all pairs, of those that interact, or of none."""
    if pairs == "all":
        return all_pairs(target.d)
    pattern = pair_pattern(target, pairs)
    return all_pairs(0) if pattern is None else edge_pairs(pattern)


def pair_pattern(target: Target, pairs: str) -> scipy.sparse.csr_array | None:
    """Return the symmetric pattern of the pairs that are recorded, or None if there are none."""
    if pairs == "none":
        return None
    if pairs == "all":
        return scipy.sparse.csr_array(~np.eye(target.d, dtype=np.bool_))
    pattern = target.edges()
    if pattern is None:
        raise ValueError(f"pairs is 'edges', but {type(target).__name__} has no edges; use 'all' or 'none'")
    return pattern


def spin_rows(d: int, what: str) -> Rows:
    """Return an array without rows for each name that there are rows of, given what is kept of d spins."""
    if what == "nothing":
        return {}
    rows: Rows = {"log_prob": np.empty(0), "magnetisation": np.empty(0)}
    if what == "draws":
        rows["draws"] = np.empty((0, d), np.int8)
    if what == "path":
        rows |= {"flip_site": np.empty(0, np.int32), "flip_time": np.empty(0), "flip_count": np.empty(0, np.int32)}
    return rows


def random_start(target: Target, view: Any, seed: np.random.SeedSequence) -> NDArray[np.int8]:
    """Return spins whose probability is not zero, and compute the caches of the view from them."""
    generator = np.random.default_rng(seed)
    log_p = np.nan
    for _ in range(_STARTS):
        s = target.start(generator)
        log_p = settle(view, s)
        raise_failure(view)
        if log_p > -np.inf:  # nor is NaN, where walls hide log p: the state may be behind them
            return s
    if np.isnan(log_p):
        raise ValueError(
            f"of {_STARTS} random starts none is known to be possible: flip costs of +inf are walls, and do not tell "
            "what is behind them. Give log_prob too, or pass a possible state as initial="
        )
    raise ValueError(
        f"{_STARTS} random starts all have probability zero (log p = -inf); pass a possible state as initial="
    )


def given_start(view: Any, start: NDArray[np.int8]) -> NDArray[np.int8]:
    s = start.copy()
    _settle_at(view, s, "initial must be")
    return s


def _settle_at(view: Any, s: NDArray[np.int8], expected: str = "expected") -> None:
    """Compute the caches of a view from s, and raise where s is impossible."""
    if settle(view, s) == -np.inf:
        raise ValueError(f"{expected} a state of non-zero probability, got log p = -inf at s = {shown(s)}")
    raise_failure(view)
