"""Kinds of targets: how chains on spins and chains on paths are made, which is all that `bouncy.sample` has to ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._validation import check_spins
from bouncy.piecewise.contract import PiecewiseTarget
from bouncy.piecewise.products import Products, all_products, no_products
from bouncy.recorders.pairs import Pairs, all_pairs, edge_pairs, no_pairs
from bouncy.recorders.recorder import CLOSED, LENGTH, new_recorder
from bouncy.run.chain import Chain
from bouncy.run.contract import AnyChain
from bouncy.run.particle import ParticleChain
from bouncy.run.within import BlockChain, Within
from bouncy.samplers import as_sampler
from bouncy.samplers.contract import PathSampler, SpinSampler
from bouncy.targets.contract import Target

# Up to this dimension all pairs are recorded unless the user says otherwise.
_PAIRS_UP_TO = 32
# Bins of a coordinate reach beyond all that was seen, by this share of it, and over as many standard deviations.
_BEYOND = 0.25
_DEVIATIONS = 6.0
# Natural lengths to each side that bins cover where nothing is known, as after fewer sweeps than this.
_LENGTHS = 10.0
_FEW_SWEEPS = 50


class Family(ABC):
    """A kind of target.

    Parameters
    ----------
    target, sampler
        What to sample, and how: a name, a sampler of this kind, or None for the default.
    pairs : {"auto", "all", "edges", "none"}
        Which pairs of sites are recorded.
    slots, thin
        Batches of each chain, and draws of the sampler from one kept draw to the next.
    """

    kind: Literal["spins", "paths"]
    pairs: str
    slots: int
    thin: int

    def __init__(self, target: Any, sampler: Any, pairs: str, slots: int, thin: int) -> None:
        self.target = target
        self.sampler = as_sampler(target, sampler)
        if pairs == "auto":
            pairs = "all" if target.d <= _PAIRS_UP_TO else "none"
        self.pairs, self.slots, self.thin = pairs, slots, thin * self.sampler.stride

    def warmup_sweeps(self, draws: int) -> int:
        """Return the default length of the warm-up before so many draws."""
        sweeps: int = self.sampler.warmup_sweeps(self.target, draws)
        return sweeps

    @abstractmethod
    def starts(self, initial: ArrayLike | None, chains: int) -> list[Any]:
        """Return the start of each chain, None where the target is to choose."""

    @abstractmethod
    def new_chain(self, seed: np.random.SeedSequence, start: Any, number: int) -> AnyChain:
        """Return a chain that records, as a warm-up should."""

    @abstractmethod
    def record(self, chains: Sequence[Any]) -> None:
        """Have chains that are warm forget what they recorded and begin anew."""


class Spins(Family):
    """Binary targets."""

    kind = "spins"
    target: Target
    sampler: SpinSampler

    def starts(self, initial: ArrayLike | None, chains: int) -> list[Any]:
        if initial is None:
            return [None] * chains
        return _spread("initial", check_spins(initial, self.target.d, "initial"), chains)

    def new_chain(self, seed: np.random.SeedSequence, start: Any, number: int) -> Chain:
        return Chain(self.target, self.sampler, seed, start, self.slots, self.thin, self._new_pairs(), number)

    def record(self, chains: Sequence[Any]) -> None:
        for chain in chains:
            chain.recorder = new_recorder(self.target.d, self.slots, self.thin, self._new_pairs())

    def _new_pairs(self) -> Pairs:
        if self.pairs == "all":
            return all_pairs(self.target.d, self.slots)
        if self.pairs == "none":
            return no_pairs()
        pattern = self.target.edges()
        if pattern is None:
            raise ValueError(f"pairs is 'edges', but {type(self.target).__name__} has no edges; use 'all' or 'none'")
        return edge_pairs(pattern, self.slots)


class Paths(Family):
    """Continuous and mixed targets."""

    kind = "paths"
    target: PiecewiseTarget
    sampler: PathSampler

    def starts(self, initial: ArrayLike | None, chains: int) -> list[Any]:
        if initial is None:
            return [None] * chains
        starts = _spread("initial", self.target.check_values("initial", initial), chains)
        for start in starts:
            if self.target.log_prob(start) == -np.inf:
                raise ValueError(f"initial must be a state of non-zero density, got {start.tolist()!s:.120}")
        return starts

    def new_chain(self, seed: np.random.SeedSequence, start: Any, number: int) -> ParticleChain:
        chain = ParticleChain(self.target, self.sampler, seed, start, number)
        self._begin(chain, np.zeros(self.target.d), np.zeros(self.target.d))
        return chain

    def record(self, chains: Sequence[Any]) -> None:
        low, high = self._bins(chains)
        for chain in chains:
            self._begin(chain, low, high)

    def _begin(self, chain: ParticleChain, low: NDArray[np.float64], high: NDArray[np.float64]) -> None:
        chain.record(self.slots, self.thin, low, high, self._new_products())

    def _new_products(self) -> Products:
        if self.pairs == "edges":
            raise ValueError(f"pairs is 'edges', which {type(self.target).__name__} does not have; use 'all' or 'none'")
        return all_products(self.target.d, self.slots) if self.pairs == "all" else no_products()

    def _bins(self, chains: Sequence[ParticleChain]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ends of the bins of each coordinate, (d,): beyond all that was seen since the last recording."""
        view, scale = chains[0].view, self.target.scale
        values = np.array([chain.x for chain in chains])
        lowest = np.minimum(np.min([c.recorder.extremes[0] for c in chains], axis=0), values.min(axis=0))
        highest = np.maximum(np.max([c.recorder.extremes[1] for c in chains], axis=0), values.max(axis=0))
        margin = _BEYOND * (highest - lowest)
        if chains[0].recorder.tally[CLOSED] * chains[0].recorder.tally[LENGTH] < _FEW_SWEEPS:
            margin = np.maximum(margin, _LENGTHS * scale)
        # A value that is rarely different from its point mass may not have been seen far from it.
        mixed = np.minimum.reduceat(np.abs(view.slope), view.first[:-1]) == 0.0
        margin = np.where(mixed, np.maximum(margin, _DEVIATIONS * scale), margin)
        margin = np.where(margin > 0.0, margin, _LENGTHS * scale)
        low, high = lowest - margin, highest + margin
        middle, deviation = _moments(chains)
        low = np.fmin(low, middle - _DEVIATIONS * deviation)
        high = np.fmax(high, middle + _DEVIATIONS * deviation)
        least, most = _support(view)
        return np.maximum(low, least), np.minimum(high, most)


class Blocks(Family):
    """Schemes in which a target of another family is one block."""

    def __init__(self, scheme: Within[Any], block: Family) -> None:
        self._scheme, self._block = scheme, block
        self.target, self.sampler, self.kind = scheme, block.sampler, block.kind
        self.pairs, self.slots, self.thin = block.pairs, block.slots, block.thin

    def starts(self, initial: ArrayLike | None, chains: int) -> list[Any]:
        return self._block.starts(initial, chains)

    def new_chain(self, seed: np.random.SeedSequence, start: Any, number: int) -> AnyChain:
        block_seed, update_seed = seed.spawn(2)
        return BlockChain(self._scheme, self._block.new_chain(block_seed, start, number), update_seed)

    def record(self, chains: Sequence[Any]) -> None:
        self._block.record(chains)


def family_of(target: Any, sampler: Any, pairs: str, slots: int, thin: int) -> Family:
    """Return the family that a target belongs to."""
    if isinstance(target, Target):
        return Spins(target, sampler, pairs, slots, thin)
    if isinstance(target, PiecewiseTarget):
        return Paths(target, sampler, pairs, slots, thin)
    if isinstance(target, Within):
        return Blocks(target, family_of(target.first, sampler, pairs, slots, thin))
    raise TypeError(f"target must be a bouncy target such as bouncy.MRF(M, r), got {type(target).__name__}")


def _spread(name: str, values: NDArray[Any], chains: int) -> list[Any]:
    """Return one start per chain, from (d,) or (chains, d)."""
    d = values.shape[-1]
    if values.ndim == 1:
        return [values] * chains
    if values.shape != (chains, d):
        raise ValueError(f"{name} has shape {values.shape}; expected ({d},) or ({chains}, {d})")
    return list(values)


def _moments(chains: Sequence[ParticleChain]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of what the chains have recorded, (d,); NaN where that is nothing."""
    time, mean, square = 0.0, np.zeros(1), np.zeros(1)
    for chain in chains:
        recorder, n = chain.recorder, chain.recorder.tally[CLOSED]
        time = time + recorder.cell[:n].sum() + recorder.open_cell.sum()
        mean = mean + recorder.mean[:n].sum(axis=0) + recorder.open_mean
        square = square + recorder.square[:n].sum(axis=0) + recorder.open_square
    duration = time / chains[0].motion.y.size
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, square = mean / duration, square / duration
        return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _support(view: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and the largest value that moves, of each coordinate, (d,); equal where none does."""
    with np.errstate(invalid="ignore"):
        ends = np.sort([view.slope * end + view.shift for end in (view.lower, view.upper)], axis=0)
    moves = view.slope != 0.0
    least = np.minimum.reduceat(np.where(moves, ends[0], np.inf), view.first[:-1])
    most = np.maximum.reduceat(np.where(moves, ends[1], -np.inf), view.first[:-1])
    still = least > most
    return np.where(still, 0.0, least), np.where(still, 0.0, most)
