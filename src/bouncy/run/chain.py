"""One chain: everything that changes while it runs."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._dispatch import named_state
from bouncy.recorders.pairs import Pairs
from bouncy.recorders.recorder import new_recorder, write_open_batch
from bouncy.recorders.trail import Trail, new_trail, no_trail
from bouncy.run.contract import AnyChain, Rows
from bouncy.run.kernel import BUFFER, advance, settle
from bouncy.samplers.contract import SpinSampler
from bouncy.targets.contract import Target, TargetError, raise_failure, shown

# Random starts that are tried before a target with impossible states is said to need one that is given.
_STARTS = 1000


class Chain(AnyChain):
    """A chain of a sampler on a target.

    Parameters
    ----------
    target, sampler
        What to sample, and how.
    seed : SeedSequence
        Source of all randomness of this chain.
    start : ndarray or None
        Spins to start from, shape (d,); None takes those of the target.
    slots, thin, pairs
        As for the recorder.
    number : int
        What the chain is called.
    """

    def __init__(
        self,
        target: Target,
        sampler: SpinSampler,
        seed: np.random.SeedSequence,
        start: NDArray[np.int8] | None,
        slots: int,
        thin: int,
        pairs: Pairs,
        number: int = 0,
    ) -> None:
        super().__init__(number)
        start_seed, sampler_seed = seed.spawn(2)
        self.view = target.view()
        self.s = _random_start(target, self.view, start_seed) if start is None else _given_start(self.view, start)
        self.clock, self.toll = sampler.start(target.d, sampler_seed)
        self.sweep_time, self.mean_per_sweep = sampler.sweep_time(target.d), 1.0
        self.recorder = new_recorder(target.d, slots, thin * sampler.stride, pairs)
        self.flips_since_resync = np.zeros(1, np.int64)
        self._times = np.empty(BUFFER)
        self._sites = np.empty(BUFFER, np.int32)

    @property
    def x(self) -> NDArray[np.int8]:
        """The present spins, (d,), as a copy."""
        return self.s.copy()

    def retarget(self, target: Target) -> None:
        """Go on from the same spins on another target of as many sites."""
        if target.d != self.s.size:
            raise ValueError(
                f"the target has changed from {self.s.size} sites to {target.d}; expected as many as before"
            )
        self.view = target.view()
        _settle_at(self.view, self.s)
        self.flips_since_resync[:] = 0

    def compile(self) -> None:
        self._call(0)

    def advance(self, sweeps: int) -> None:
        """Run for some sweeps. How a run is cut into calls leaves no trace in its results.

        A target that fails stops the chain for good, and what it failed with is raised.
        """
        before = time.thread_time()
        left = self._call(sweeps)
        while left:
            self._raise_failure()
            self._empty_trail()
            left = self._call(left)
        self.timed(before, sweeps)

    def new_rows(self, draws: int) -> Rows:
        if self.keeps == "nothing":
            return {}
        rows: Rows = {"log_prob": np.empty(draws), "magnetisation": np.empty(draws)}
        if self.keeps == "draws":
            rows["draws"] = np.empty((draws, self.s.size), np.int8)
        if self.keeps == "path":
            rows |= {"flip_site": np.empty(0, np.int32), "flip_time": np.empty(0), "flip_count": np.empty(0, np.int32)}
        return rows

    def gather(self, sweeps: int) -> Rows:
        """Run for some sweeps, and return what is kept of the draws that fell into them.

        A path is kept as the sites and times of its flips since the beginning of their sweep, (flip,), and the number
        of flips in each sweep, (sweep,).
        """
        if self.keeps != "path":
            return super().gather(sweeps)
        self.recorder = self.recorder._replace(trail=new_trail(self.s.size, sweeps))
        self._flips: list[Rows] = []
        try:
            rows = super().gather(sweeps)
            self._empty_trail()
        finally:
            self.recorder = self.recorder._replace(trail=no_trail())
        return rows | {name: np.concatenate([part[name] for part in self._flips]) for name in self._flips[0]}

    def _empty_trail(self) -> None:
        """Move what the trail holds to the flips that were gathered."""
        trail: Trail = self.recorder.trail
        n, sweeps, _ = trail.tally
        if n > trail.site.size:
            raise RuntimeError(f"{n} flips in {sweeps} sweeps of {self.s.size} sites, which is a bug; report it")
        counts = np.diff(trail.ends[:sweeps], prepend=0).astype(np.int32)
        self._flips.append(
            {"flip_site": trail.site[:n].copy(), "flip_time": trail.time[:n].copy(), "flip_count": counts}
        )
        trail.tally[:2] = 0

    def bytes_per_sweep(self) -> float:
        return super().bytes_per_sweep() + (12.0 * self.s.size + 4.0 if self.keeps == "path" else 0.0)

    def stop(self) -> None:
        """Have a target that may be slow stop in the middle of a sweep, after which the chain cannot go on."""
        if hasattr(self.view, "stop"):
            self.view.stop()

    def _raise_failure(self) -> None:
        try:
            raise_failure(self.view)
        except TargetError as error:
            error.chain = self.number
            raise

    def _call(self, sweeps: int) -> int:
        left: int = advance(
            self.clock, self.toll, self.view, self.recorder, self.s, self.flips_since_resync,
            self._times, self._sites, self.sweep_time, sweeps,
        )  # fmt: skip
        return left

    def write_open_batch(self) -> None:
        write_open_batch(self.recorder, self.s)

    def arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"s": self.s, "flips_since_resync": self.flips_since_resync}
        for name in ("clock", "toll", "view", "recorder"):
            arrays |= named_state(name, getattr(self, name))
        return arrays


def _random_start(target: Target, view: Any, seed: np.random.SeedSequence) -> NDArray[np.int8]:
    """Return spins whose probability is not zero, and have the caches of the view agree with them."""
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


def _given_start(view: Any, start: NDArray[np.int8]) -> NDArray[np.int8]:
    s = start.copy()
    _settle_at(view, s, "initial must be")
    return s


def _settle_at(view: Any, s: NDArray[np.int8], expected: str = "expected") -> None:
    """Have the caches of a view agree with s, and raise where s is impossible."""
    if settle(view, s) == -np.inf:
        raise ValueError(f"{expected} a state of non-zero probability, got log p = -inf at s = {shown(s)}")
    raise_failure(view)
