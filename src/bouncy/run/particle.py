"""A chain on a continuous target: a motion, and what it keeps."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._dispatch import named_state
from bouncy.piecewise.contract import PiecewiseTarget
from bouncy.piecewise.motion import advance, prepare
from bouncy.piecewise.potential import new_view
from bouncy.piecewise.products import Products
from bouncy.piecewise.recorder import PathRecorder, new_path_recorder, write_open_batch
from bouncy.run.contract import AnyChain, Rows
from bouncy.samplers.contract import PathSampler

Array = NDArray[np.float64]


class ParticleChain(AnyChain):
    """A chain of a sampler on a continuous target.

    Parameters
    ----------
    target, sampler
        What to sample, and how.
    seed : SeedSequence
        Source of all randomness of this chain.
    start : ndarray or None
        Values x to start from, shape (d,); None takes those of the target.
    number : int
        What the chain is called.
    """

    def __init__(
        self,
        target: PiecewiseTarget,
        sampler: PathSampler,
        seed: np.random.SeedSequence,
        start: Array | None,
        number: int = 0,
    ) -> None:
        super().__init__(number)
        start_seed, sampler_seed = seed.spawn(2)
        cells = target.potential.cells
        if start is None:
            y = target.start(np.random.default_rng(start_seed))
            rows = cells.locate(y)
        else:
            y, rows = cells.coordinates(start)
        self._sampler = sampler
        self._cells, self._scale = cells, target.scale
        self.view = target.view()
        self.motion = sampler.start(target, y, rows, sampler_seed)
        self.sweep_time = self.mean_per_sweep = sampler.sweep_time(target.d)
        self.rates = sampler.rates(target)
        prepare(self.motion, self.view)

    @property
    def x(self) -> Array:
        """The present values, (d,)."""
        rows = self.motion.row
        values: Array = self.view.slope[rows] * self.motion.y + self.view.shift[rows]
        return values

    def record(self, slots: int, thin: int, low: Array, high: Array, products: Products) -> None:
        """Begin to record, with bins from `low` to `high`, both (d,); what was recorded before is dropped."""
        d, cells = self.motion.y.size, self.view.lower.size
        self.recorder: PathRecorder = new_path_recorder(d, cells, slots, thin, low, high, products)

    def retarget(self, target: PiecewiseTarget) -> None:
        """Go on from the same place on a target of the same cells, whose potential has changed."""
        cells = target.potential.cells
        for name in ("first", "lower", "upper", "slope", "shift"):
            if not np.array_equal(getattr(cells, name), getattr(self._cells, name)):
                raise ValueError(
                    f"the {name} of the target's cells has changed between two visits; expected the same cells, as the "
                    "method `given` of a target keeps them"
                )
        self.view = new_view(target.potential, self._scale)
        self.motion = self._sampler.retarget(self.motion, target)
        self.rates = None, None
        prepare(self.motion, self.view)

    def compile(self) -> None:
        advance(self.motion, self.view, self.recorder, self.sweep_time, 0)

    def advance(self, sweeps: int) -> None:
        before = time.thread_time()
        advance(self.motion, self.view, self.recorder, self.sweep_time, sweeps)
        self.timed(before, sweeps)

    def write_open_batch(self) -> None:
        write_open_batch(self.recorder)

    def new_rows(self, draws: int) -> Rows:
        if self.keeps == "nothing":
            return {}
        states = {"draws": np.empty((draws, self.motion.y.size))} if self.keeps == "draws" else {}
        return {"log_prob": np.empty(draws), **states}

    def arrays(self) -> dict[str, NDArray[Any]]:
        return named_state("motion", self.motion) | named_state("recorder", self.recorder)
