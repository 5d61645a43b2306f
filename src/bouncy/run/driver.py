"""The driver: takes workers through warm-up and recording to a goal, and returns the run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bouncy.recorders.batches import Batches, batch_length
from bouncy.recorders.tracked import Tracked
from bouncy.results import as_run
from bouncy.results.batches import standard_error
from bouncy.results.data import RECORDING, Data, Place, Records, Setup
from bouncy.results.describe import origin
from bouncy.results.run import Run
from bouncy.run.endings import warn_about
from bouncy.run.estimate import check_feasible
from bouncy.run.goal import WORTH_A_RESTART, Goal, Verdict, check_goal
from bouncy.run.interrupts import Interrupts
from bouncy.run.pool import Done, Pool, Threads, WorkerInterrupt
from bouncy.run.precision import look
from bouncy.run.progress import ChainProgress, Progress, Reporter
from bouncy.run.remote import Remote, WorkerError
from bouncy.storage.checkpoint import Checkpoint
from bouncy.storage.rows import Rows
from bouncy.targets.contract import TargetError
from bouncy.workers.contract import Keep, Slice, State, Worker

# Share of the CPU seconds of a run that its warm-up takes at most, if the driver chooses its length.
_WARMUP_SHARE = 0.2
# A run is recorded anew, after a longer warm-up, only when it is so many times as long as its warm-up.
_LONG_ENOUGH = 4
# A sweep that no run reaches.
_NEVER = 1 << 62
# Part of the time that is left which a slice may take.
_LAST_PART = 0.25
# Seconds between two looks at the errors of chains for the progress, and how many times longer than a look that is.
_LOOK_EVERY, _LOOK_SHARE = 1.0, 100.0


@dataclass(frozen=True)
class Resources:
    """What runs the workers, and where progress is shown: the arguments of `bouncy.sample` of these names."""

    threads: int | None = None
    executor: Executor | Callable[[], Executor] | None = None
    progress: bool | Callable[[Progress], object] | None = None

    def new_pool(self, interrupts: Interrupts) -> Pool:
        """Return threads of this process, or an executor's workers."""
        if self.executor is None or isinstance(self.executor, ThreadPoolExecutor):
            return Threads(interrupts, self.threads, self.executor)
        return Remote(interrupts, self.executor)


class Driver:
    """Takes workers through warm-up and recording to a goal.

    Parameters
    ----------
    setup : Setup
        What was asked.
    workers : list of Worker
        Workers that are level.
    warmup_sweeps : int
        Sweeps before anything is recorded.
    goal : Goal
        Where the run is to stop.
    resources : Resources
        What runs the workers, and where progress is shown.
    checkpoint : Checkpoint, optional
        Where the run is written.
    """

    def __init__(
        self,
        setup: Setup,
        workers: list[Worker],
        warmup_sweeps: int,
        goal: Goal,
        resources: Resources,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.setup, self.workers, self.warmup_sweeps, self.goal = setup, workers, warmup_sweeps, goal
        self.checkpoint = checkpoint
        self.level = workers[0].sweeps
        self.stage, self.recordings, self.warmup_seconds = 0, 0, 0.0
        self.records = self._new_records(Rows({}, self._chains))
        self._interrupts = Interrupts()
        self._pool = resources.new_pool(self._interrupts)
        self._reporter = Reporter(resources.progress)
        self._verdict: Verdict | None = None
        self._looked_at = 0  # draws at the last look
        self._worst_errors: dict[int, float] = {}
        self._next_errors = 0.0
        self._first_cpu = self._seconds
        self._errors: list[TargetError] = []

    @classmethod
    def continuing(cls, run: Run, goal: Goal, resources: Resources, checkpoint: Checkpoint | None) -> Driver:
        """Return a driver that goes on with a run, which stays as it is."""
        data = run._data
        driver = cls(data.setup, restored_workers(data), data.warmup_sweeps, goal, resources, checkpoint)
        driver.stage, driver.recordings = data.stage, data.recordings
        driver.warmup_seconds, driver.records = data.warmup_seconds, data.records.shared()
        return driver

    # The main loop

    def run(self) -> Run:
        """Warm up, then record until a goal is reached, with checkpoints on the way, and return the run."""
        reason = None
        try:
            with Interrupts(at_once=True):  # nothing can be lost yet
                self._pool.prepare(self.workers, self.setup.keep)
            with self._interrupts:
                self._write_checkpoint("nothing")
                while reason is None:
                    end = self._next_decision()
                    for done in self._pool.advance(self.workers, end, self._keep, self._pause, self._longest_slice):
                        self._take(done)
                    reason = self._decide(end)
                    if reason is not None or self._checkpoint_is_due:
                        self._write_checkpoint(reason or "nothing")
        except WorkerInterrupt as error:
            raise error.error from None
        except WorkerError as error:
            self._write_checkpoint("interrupt")
            error.run = self.result("interrupt", [worker.state(copy=False) for worker in self.workers])
            raise
        finally:
            self._reporter.close()
            self._pool.close()
            if self.checkpoint is not None:
                self.checkpoint.close()
        run = self.result(reason, [worker.state(copy=False) for worker in self.workers])
        if self._errors:
            self._errors[0].run = run
            raise self._errors[0]
        return run

    def _next_decision(self) -> int:
        """Return the sweep at which something has to be decided next."""
        if self.stage < RECORDING:
            half = self.warmup_sweeps // 2 // self._stride * self._stride
            return half if self.stage == 0 else self.warmup_sweeps
        draws = [self.goal.draws] if self.goal.draws is not None else []
        draws += [self.goal.next_look] if self.goal.until_se is not None else []
        return self._begun + min(draws) * self.setup.per_draw if draws else _NEVER

    def _decide(self, end: int) -> str | None:
        """Return why to stop, or go over to the next stage when the present one has reached its end."""
        out_of_time = self._seconds >= self._deadline()
        if self.level < end and not out_of_time:
            return "interrupt" if self._interrupts.seen else None
        if self.stage < RECORDING:
            if out_of_time and not self.setup.chooses_warmup:
                return "seconds"
            self._finish_trajectories(end)
            self._begin_next_stage()
            reason = None
        elif self.goal.draws is not None and self._drawn >= self.goal.draws:
            reason = "draws"
        elif self.goal.until_se is not None and self._drawn >= self.goal.next_look:
            reason = self._look() or ("seconds" if out_of_time else None)
        else:
            reason = "seconds" if out_of_time else None
        return reason or ("interrupt" if self._interrupts.seen else None)

    def _take(self, done: Done) -> None:
        """Add a round to the records, without the chains whose targets failed."""
        if done.errors:
            self._drop(done.errors)
        if not done.slices:
            return
        self.level = done.end
        slices = [done.slices[worker] for worker in self.workers]
        if self.stage == RECORDING:
            self.records.append(slices)
        if self._reporter.due:
            self._reporter.report(self._progress(slices))

    def _drop(self, errors: Mapping[Worker, TargetError]) -> None:
        """Go on without the workers whose targets failed, if any are left."""
        self._errors += errors.values()
        left = [worker for worker in self.workers if worker not in errors]
        if not left:
            raise self._errors[0]
        chains = [k for worker in left for k in self._places(worker)]
        self.warmup_seconds *= len(left) / len(self.workers)
        self.recordings += 1
        self.records = self.records.only(chains, self._suffix)
        self.workers = left

    def _look(self) -> str | None:
        """Judge the precision; record anew where the warm-up was too short for a run as long as is needed."""
        self._verdict = verdict = look(self.result("nothing", []), self.goal)
        self._looked_at = drawn = self._drawn
        reason = self.goal.judge(verdict, drawn, self.level)
        long = self.level - self._begun >= _LONG_ENOUGH * self.warmup_sweeps
        spare = self.goal.seconds is None or self._seconds < self.goal.seconds / WORTH_A_RESTART
        if reason is None and self.setup.chooses_warmup and long and spare and verdict.needed > WORTH_A_RESTART:
            self._record(0)
            self.goal.look_again(drawn)
        return reason

    # Stages

    def _begin_next_stage(self) -> None:
        self.stage += 1
        if self.stage == RECORDING:
            self._record(self.goal.draws or 0)
        else:
            type(self.workers[0]).record_anew(self.workers)

    def _record(self, expected: int) -> None:
        """Begin a recording: everything before it is warm-up."""
        type(self.workers[0]).record_anew(self.workers)
        self.warmup_sweeps = self.level
        self.warmup_seconds = sum(worker.cpu_seconds for worker in self.workers)
        self.recordings += 1
        templates = self.workers[0].empty_rows(self.setup.keep)
        folder = None if self.checkpoint is None else self.checkpoint.folder
        thinned = self.setup.keep == "means"
        rows = Rows(templates, self._chains, thinned, folder, self._suffix, expected)
        self.records = self._new_records(rows)

    def _new_records(self, rows: Rows) -> Records:
        slots = self.setup.slots
        function = self.goal.se_of if callable(self.goal.se_of) else None
        tracked = None if function is None else Tracked(function, self._chains, slots)
        start = [x for worker in self.workers for x in worker.x] if self.setup.keep == "path" else []
        return Records([Batches(slots) for _ in range(self._chains)], rows, tracked, start)

    def _finish_trajectories(self, end: int) -> None:
        """Advance to the end of a trajectory, so that draws begin where trajectories do."""
        target = min(end, -(-self.level // self._stride) * self._stride)
        if self.level < target:
            for done in self._pool.advance(self.workers, target, self._keep, lambda: False, self._longest_slice):
                self._take(done)

    def _keep(self) -> Keep:
        """Return what slices keep of the draws: states too where a function of them is followed."""
        if self.stage < RECORDING:
            return Keep()
        if self.records.tracked is not None and self.setup.keep == "means":
            return Keep("draws")
        return Keep(self.setup.keep, self.records.rows.columns["log_prob"].spacing)

    # Time

    def _deadline(self) -> float:
        """Return the CPU seconds of a chain at which the present stage is over."""
        seconds = self.goal.seconds
        if seconds is None:
            return math.inf
        if self.stage == RECORDING or not self.setup.chooses_warmup:
            return seconds
        share = _WARMUP_SHARE * (0.5 if self.stage == 0 else 1.0)
        return self._first_cpu + share * (seconds - self._first_cpu)

    def _pause(self) -> bool:
        return self._checkpoint_is_due or self._seconds >= self._deadline()

    def _longest_slice(self) -> float:
        return max(1e-3, _LAST_PART * (self._deadline() - self._seconds) * self._chains / len(self.workers))

    # The present state

    @property
    def _chains(self) -> int:
        return sum(worker.chains for worker in self.workers)

    @property
    def _stride(self) -> int:
        stride: int = self.setup.sampler.stride
        return stride

    @property
    def _begun(self) -> int:
        """Sweep at which the recording began."""
        return self.workers[0].begun

    @property
    def _drawn(self) -> int:
        return (self.level - self._begun) // self.setup.per_draw

    @property
    def _seconds(self) -> float:
        """CPU seconds of a chain, on average."""
        return sum(worker.cpu_seconds for worker in self.workers) / self._chains

    @property
    def _suffix(self) -> str:
        """End of the names of files of rows: those of an older recording belong to an older generation."""
        return f".{self.recordings}.rows"

    def _places(self, worker: Worker) -> range:
        """Return the places of the chains of a worker among all chains."""
        before = self.workers[: self.workers.index(worker)]
        first = sum(other.chains for other in before)
        return range(first, first + worker.chains)

    def result(self, stopped_by: str, states: list[State]) -> Run:
        """Return the run as it is now, with some states of the workers, which must be level."""
        workers = self.workers
        recording = self.stage == RECORDING
        open_sums = [batch for worker in workers for batch in worker.open_sums()]
        if not recording:
            open_sums = [{name: np.zeros_like(array) for name, array in batch.items()} for batch in open_sums]
        place = self.checkpoint
        data = Data(
            setup=self.setup,
            goal=replace(self.goal),
            stopped_by=stopped_by,
            chains=tuple(worker.first + k for worker in workers for k in range(worker.chains)),
            stage=self.stage,
            warmup_sweeps=self.warmup_sweeps,
            recordings=self.recordings,
            sweeps=self.level,
            begun=self._begun,
            cpu_seconds=sum(worker.cpu_seconds for worker in workers),
            warmup_seconds=self.warmup_seconds,
            sweep_time=workers[0].sweep_time,
            rates=self.setup.rates(),
            records=self.records.shared(),
            open=open_sums,
            totals=[totals for worker in workers for totals in worker.totals()],
            constants=workers[0].constants(),
            states=states,
            checkpoint=None if place is None else Place(place.folder, place.every, place.generation),
            origin=origin(),
        )
        run: Run = as_run(data)
        return run

    # Checkpoints

    @property
    def _checkpoint_is_due(self) -> bool:
        return self.checkpoint is not None and self.checkpoint.due

    def _write_checkpoint(self, stopped_by: str) -> None:
        """Begin to write a checkpoint; wait for the last one."""
        if self.checkpoint is not None:
            states = [worker.state() for worker in self.workers]
            self.checkpoint.write(lambda: self.result(stopped_by, states), self.records.rows)

    # Progress

    def _progress(self, slices: Sequence[Slice]) -> Progress:
        self._look_at_errors()
        share, drawn = self._share(), self._drawn if self.stage == RECORDING else 0
        chains = []
        for worker, found in zip(self.workers, slices, strict=True):
            for k, flips in enumerate(found.flips):
                error = self._worst_errors.get(worker.first + k, math.nan)
                rate = flips * worker.chains / found.cpu_seconds if found.cpu_seconds else 0.0
                chains.append(ChainProgress(worker.first + k, share, drawn, rate, error))
        stage = "sampling" if self.stage == RECORDING else "warm-up"
        return Progress(self.setup.sampler.name, stage, share, self._left(), tuple(chains))

    def _share(self) -> float | None:
        """Return the largest share of any of the goals that is reached; None where it is not known."""
        if self.stage < RECORDING:
            shares = [self.level / max(self.warmup_sweeps, 1)]
        else:
            recorded = self.level - self._begun
            shares = [] if self.goal.draws is None else [recorded / (self.goal.draws * self.setup.per_draw)]
            if self._verdict is not None and math.isfinite(self._verdict.needed):
                needed = self._verdict.needed * self._looked_at * self.setup.per_draw
                shares.append(recorded / max(needed, 1.0))
        if self.goal.seconds is not None:
            shares.append(self._seconds / self.goal.seconds)
        return min(max(shares), 1.0) if shares else None

    def _left(self) -> str:
        """Return what is left to do, in words."""
        goal, verdict = self.goal, self._verdict
        if goal.until_se is None or self.stage < RECORDING:
            return ""
        if verdict is None or math.isnan(verdict.worst):
            return f"until se {goal.until_se:.2g}"
        words = f"se {verdict.worst:.2g}, wanted {goal.until_se:.2g}"
        if verdict.disagree:
            return f"{words}, chains disagree"
        return f"{words}: {verdict.needed:.2g}x the draws" if verdict.needed > 1.0 else words

    def _look_at_errors(self) -> None:
        """Compute the largest standard error of a mean of each chain, every now and then."""
        now = time.perf_counter()
        if self.stage < RECORDING or now < self._next_errors:
            return
        length = batch_length(self.level - self._begun, self.setup.slots)
        indices = [worker.first + k for worker in self.workers for k in range(worker.chains)]
        for index, batches in zip(indices, self.records.batches, strict=True):
            if len(batches.closed) >= 4:
                weights = np.array([self.workers[0].mean_weight(batch, length) for batch in batches.closed])
                sums = np.stack([batch["mean"] for batch in batches.closed])
                self._worst_errors[index] = float(standard_error(sums, weights, weights.sum()).max())
        self._next_errors = now + max(_LOOK_EVERY, _LOOK_SHARE * (time.perf_counter() - now))


def _spins_of(state: State) -> Any:
    """Return the spins in the state of a worker, those of all rungs of a ladder; None where there are none."""
    if "replicas" in state:
        lanes = state["toll.swaps.lane"].size
        return state["replicas"].T[:lanes]
    return state.get("s", state.get("block.s"))


def restored_workers(data: Data) -> list[Worker]:
    """Return workers in the states that some data hold; raise `ValueError` where these are impossible."""
    starts = [_spins_of(state) for state in data.states] if data.setup.lanes == 1 else [None] * len(data.chains)
    d, setup = data.setup.target.d, data.setup
    shapes = [(d,), (setup.sampler.ladders * setup.rungs, d)] if setup.is_tempered else [(d,)]
    for start in (start for start in starts if start is not None):
        if start.dtype != np.int8 or start.shape not in shapes or not (np.abs(start) == 1).all():
            raise ValueError("the state of a worker must hold spins, -1 or 1")
    workers = data.setup.new_workers([np.random.SeedSequence(0)] * len(data.chains), starts)
    first = 0
    for worker, state in zip(workers, data.states, strict=True):
        chains = worker.chains
        worker.restore(state)
        if worker.chains != chains:
            raise ValueError(f"a worker carries {worker.chains} chains; expected {chains}")
        worker.first = data.chains[first]
        first += worker.chains
        if (worker.sweeps, worker.begun) != (data.sweeps, data.begun):
            raise ValueError("workers must have made the same number of sweeps")
    return workers


def extended(run: Run, draws: Any, seconds: Any, until_se: Any, se_of: Any, **resources: Any) -> Any:
    """Return a longer run; see `Run.extend`."""
    data = run._data
    goal = check_goal(draws, seconds, until_se, se_of)
    if draws is None and seconds is None and until_se is None:
        raise TypeError("extend needs to know how far: draws=, seconds= or until_se=")
    goal.draws = None if goal.draws is None else data.drawn + goal.draws
    goal.seconds = None if goal.seconds is None else data.cpu_seconds / len(data.chains) + goal.seconds
    goal.look_again(data.drawn)
    tracked = data.records.tracked
    if callable(se_of) and (tracked is None or tracked.function is not se_of):
        raise ValueError("se_of must be the function that the run began with: states of the past are needed for it")
    used, place = Resources(**resources), data.checkpoint
    folder = None if place is None else place.folder
    check_feasible(data.setup, run.chains, goal, used, folder, data.drawn)
    checkpoint = None if place is None else Checkpoint.reopen(place)
    longer = continued(run, goal, used, checkpoint)
    warn_about(longer)
    return longer


def continued(run: Run, goal: Goal, resources: Resources, checkpoint: Checkpoint | None) -> Run:
    """Return a run that goes on to a goal."""
    try:
        driver = Driver.continuing(run, goal, resources, checkpoint)
    except BaseException:
        if checkpoint is not None:
            checkpoint.close()
        raise
    return driver.run()
