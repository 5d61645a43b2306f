"""A worker that carries one chain on a continuous or mixed target: a motion, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bouncy._dispatch import check_range
from bouncy.piecewise.contract import PathTarget
from bouncy.piecewise.expectations import Expectations, NoExpectations, new_expectations, no_expectations
from bouncy.piecewise.motion import advance, prepare
from bouncy.piecewise.products import Products, new_products
from bouncy.piecewise.recorder import PathRecorder, copy_of_sums, new_path_recorder, open_sums, take_batch
from bouncy.piecewise.spikes import settle_windows
from bouncy.recorders.batches import Batch
from bouncy.targets.contract import TargetError
from bouncy.workers.contract import Plan, Rows
from bouncy.workers.loop import LoopWorker

Array = NDArray[np.float64]

# Bins of a coordinate reach beyond all that was seen, by this share of it, and over as many standard deviations; over
# no more than so many where the value has no point masses, so that heavy tails leave bins for the bulk.
_BEYOND = 0.25
_DEVIATIONS, _MOST_DEVIATIONS = 6.0, 12.0
# Natural lengths to each side that bins cover where nothing is known, as after fewer sweeps than this.
_LENGTHS = 10.0
_FEW_SWEEPS = 50
# Stages of a warm-up, each of which begins a recording of its own.
_STAGES = 2
# Relative error of a velocity's length.
_ROUNDING = 1e-9
# A length changes by this factor at most at a time, and only where so much of a stage was seen since it last changed.
_MOST_RESCALED = 100.0
_LEAST_SEEN = 0.125


class PathWorker(LoopWorker):
    """One chain of a sampler on a continuous target.

    Parameters
    ----------
    target, sampler
        What to sample, and how.
    plan : Plan
        What is recorded.
    seed : SeedSequence
        Source of all randomness.
    start : ndarray or None
        Values x to start from, shape (d,); None takes those of the target.
    first : int
        Index of the chain.
    """

    recorder: PathRecorder

    def __init__(
        self,
        target: PathTarget,
        sampler: Any,
        plan: Plan,
        seed: np.random.SeedSequence,
        start: Array | None,
        first: int = 0,
    ) -> None:
        super().__init__(first, plan, sampler.sweep_time(target.d))
        start_seed, sampler_seed = seed.spawn(2)
        cells = target.cells
        if start is None:
            y = target.start(np.random.default_rng(start_seed))
            rows = cells.locate(y)
        else:
            y, rows = cells.coordinates(start)
        self._sampler = sampler
        self._layout, self._scale = target.layout, target.scale
        self._finds_scale, self.support = target.finds_scale, target.support
        self.view = target.view()
        self.motion = sampler.start(target, y, rows, sampler_seed)
        self._moments = np.zeros((3, target.d))  # of closed batches
        self._adapting = np.full(1, _STAGES)  # stages of the warm-up that are left
        given = sampler.records_expectations(target)
        expectations = (
            new_expectations(target.d, cells.lower.size, self.view.spikes.order.size > 0)
            if given
            else no_expectations()
        )
        self._couplings = target._packed_couplings if given else {}
        products = _new_products(target, plan.pairs, given)
        self._record(np.zeros(target.d), np.zeros(target.d), products, expectations)
        self._prepare()

    @property
    def x(self) -> Array:
        rows = self.motion.row
        values: Array = self.view.slope[rows] * self.motion.y + self.view.shift[rows]
        return values[None]

    @property
    def scale(self) -> Array:
        """The lengths in which coordinates are measured, (d,)."""
        return self.motion.scale.copy() if self._finds_scale else self._scale

    def _record(self, low: Array, high: Array, products: Products, expectations: Expectations | NoExpectations) -> None:
        """Begin to record, with bins from `low` to `high`, both (d,); what was recorded before is dropped."""
        self.begun = self.sweeps
        self.recorder = new_path_recorder(self.motion.y.size, self.view.lower.size, low, high, products, expectations)
        self._moments[:] = 0.0

    def retarget(self, target: PathTarget) -> None:
        """Go on from the same place on a target of the same cells, whose potential has changed."""
        for name, array in target.layout.items():
            if not np.array_equal(array, self._layout[name]):
                raise ValueError(
                    f"the {name} of the target's cells has changed between two visits; expected the same cells, as the "
                    "method `given` of a target keeps them"
                )
        self._settle(self.recorder)
        self.view = target.view(self._scale)
        self.motion = self._sampler.retarget(self.motion, target)
        self._prepare()

    def _prepare(self) -> None:
        prepare(self.motion, self.view, self.recorder.evaluations)
        self._raise_failure()

    def _run(self, sweeps: int) -> None:
        """Run the loop. A target that fails stops the worker for good, and its error is raised."""
        if advance(self.motion, self.view, self.recorder, self.sweep_time, sweeps):
            self._raise_failure()
            error = TargetError(
                "a variable has no law given the others whose integral is finite; expected -log p that rises towards "
                "every end that is not bounded, so that it can be normalised",
                "potential",
                None,
                self.x[0],
            )
            error.chain = self.first
            raise error

    def empty_rows(self, what: str) -> Rows:
        return path_rows(self.motion.y.size, what)

    def _settle(self, recorder: PathRecorder) -> None:
        """Bring sums up to date that loops put off."""
        if isinstance(recorder.expectations, Expectations) and self.view.spikes.order.size:
            settle_windows(recorder, self.view, self.sweep_time)

    def open_sums(self) -> list[Batch]:
        recorder = copy_of_sums(self.recorder)
        self._settle(recorder)
        return [open_sums(recorder)]

    def mean_weight(self, batch: Batch, sweeps: int) -> float:
        return self.sweep_time * sweeps

    def _take_batches(self) -> list[Batch]:
        self._settle(self.recorder)
        batch = take_batch(self.recorder)
        self._moments += _moments(batch)
        made = self.sweeps - self.begun
        if self._finds_scale and self._adapting[0] and made & (made - 1) == 0:
            _adapt([self], _scale_of([self]))  # after 1, 2, 4, ... sweeps, each time from the second half of them
            self._moments[:] = 0.0
        return [batch]

    def totals(self) -> list[dict[str, NDArray[Any]]]:
        names = ("flips", "evaluations", "extremes", "low", "width")
        return [{name: getattr(self.recorder, name).copy() for name in names}]

    def constants(self) -> dict[str, NDArray[Any]]:
        cells = {f"cells.{name}": self._layout[name].copy() for name in ("first", "slope", "shift", "upper")}
        return {**cells, **self._couplings}

    @classmethod
    def record_anew(cls, workers: Sequence[Self]) -> None:
        """Begin a recording whose bins reach beyond all that was seen since the last one began.

        Where the target does not know its scale, it is that of what all workers have seen.
        """
        low, high = _bins(workers)
        for worker in workers:
            worker._adapting[:] = max(worker._adapting[0] - 1, 0)
        if workers[0]._finds_scale:
            _adapt(workers, _scale_of(workers))
        for worker in workers:
            worker.recorder.products.clear()
            worker.recorder.expectations.clear()
            worker._record(low, high, worker.recorder.products, worker.recorder.expectations)

    def _check(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._check(state)
        check_range("adapting", state["adapting"], 0, _STAGES)
        if self._finds_scale and "motion.v" in state:
            # A particle that is too fast for its scale would meet walls without end.
            speed = np.sqrt(np.sum((state["motion.v"] / state["motion.scale"]) ** 2))
            check_range("the speed of motion.v in motion.scale", speed, 1.0 - _ROUNDING, 1.0 + _ROUNDING)
        rows = state["motion.row"]
        check_range("motion.row", rows, self.view.first[:-1], self.view.first[1:] - 1)
        for name in ("slope", "shift", "tilt", "curvature", "lower", "upper"):  # which some motions copy
            copied = state.get(f"motion.{name}")
            if copied is not None and not np.array_equal(copied, getattr(self.view, name)[rows]):
                raise ValueError(f"motion.{name} is not that of the cells")

    def _parts(self) -> dict[str, Any]:
        return {
            "motion": self.motion,
            "recorder": self.recorder,
            "moments": self._moments,
            "adapting": self._adapting,
        }


def path_rows(d: int, what: str) -> Rows:
    """Return an array without rows for each name that there are rows of, given what is kept of d variables."""
    if what == "nothing":
        return {}
    states = {"draws": np.empty((0, d))} if what == "draws" else {}
    return {"log_prob": np.empty(0), **states}


def _moments(batch: Batch) -> Array:
    """Return the time integrals of 1, x and x^2 over a batch, (3, d)."""
    d = batch["mean"].size
    return np.stack([np.full(d, batch["cell"].sum() / d), batch["mean"], batch["square"]])


def _new_products(target: PathTarget, pairs: str, given: bool) -> Products:
    if pairs == "edges":
        raise ValueError(f"pairs is 'edges', which {type(target).__name__} does not have; use 'all' or 'none'")
    return new_products(0 if pairs == "none" else target.d, given)


def _bins(workers: Sequence[PathWorker]) -> tuple[Array, Array]:
    """Return the ends of the bins of each coordinate, (d,) each."""
    view, scale = workers[0].view, workers[0].scale
    values = np.concatenate([worker.x for worker in workers])
    lowest = np.minimum(np.min([w.recorder.extremes[0] for w in workers], axis=0), values.min(axis=0))
    highest = np.maximum(np.max([w.recorder.extremes[1] for w in workers], axis=0), values.max(axis=0))
    margin = _BEYOND * (highest - lowest)
    if workers[0].sweeps - workers[0].begun < _FEW_SWEEPS:
        margin = np.maximum(margin, _LENGTHS * scale)
    # A value that is rarely different from its point mass may not have been seen far from it.
    mixed = np.minimum.reduceat(np.abs(view.slope), view.first[:-1]) == 0.0
    margin = np.where(mixed, np.maximum(margin, _DEVIATIONS * scale), margin)
    margin = np.where(margin > 0.0, margin, _LENGTHS * scale)
    low, high = lowest - margin, highest + margin
    middle, deviation = _mean_and_deviation(workers)
    low = np.fmin(low, middle - _DEVIATIONS * deviation)
    high = np.fmax(high, middle + _DEVIATIONS * deviation)
    if workers[0].sweeps - workers[0].begun >= _FEW_SWEEPS:
        most = np.where(mixed | (deviation == 0.0), np.inf, _MOST_DEVIATIONS * deviation)
        low, high = np.fmax(low, middle - most), np.fmin(high, middle + most)
    least, most = workers[0].support
    return np.maximum(low, least), np.minimum(high, most)


def _total_moments(workers: Sequence[PathWorker]) -> Array:
    total: Array = np.sum([worker._moments + _moments(worker.open_sums()[0]) for worker in workers], axis=0)
    return total


def _mean_and_deviation(workers: Sequence[PathWorker]) -> tuple[Array, Array]:
    """Return mean and standard deviation of what was recorded, (d,) each; NaN where that is nothing."""
    total = _total_moments(workers)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, square = total[1:] / total[0]
        return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _adapt(workers: Sequence[PathWorker], scale: Array) -> None:
    """Have workers go on with other lengths, (d,)."""
    workers[0]._sampler.adapt([worker.motion for worker in workers], scale, int(workers[0]._adapting[0]))
    for worker in workers:
        worker._prepare()


def _scale_of(workers: Sequence[PathWorker]) -> Array:
    """Return the standard deviation of each coordinate, (d,), or its present length where nothing is known."""
    present = np.exp(np.mean([np.log(worker.scale) for worker in workers], axis=0))
    _, deviation = _mean_and_deviation(workers)
    whole = sum(worker.sweep_time * (worker.sweeps - worker.begun) for worker in workers)
    known = np.isfinite(deviation) & (deviation > 0.0)
    known &= _total_moments(workers)[0] >= _LEAST_SEEN * whole
    return np.clip(np.where(known, deviation, present), present / _MOST_RESCALED, present * _MOST_RESCALED)
