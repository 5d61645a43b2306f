"""Driving a run to its goal: warm-up, recording, looks at the precision, checkpoints, interrupts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bouncy.recorders.contract import FLIPS
from bouncy.recorders.recorder import CLOSED, LENGTH
from bouncy.run.checkpoint import Checkpoint
from bouncy.run.contract import AnyChain, Rows
from bouncy.run.crew import ChainInterrupt, Crew, Watcher
from bouncy.run.goal import WORTH_A_RESTART, Goal, Verdict
from bouncy.run.growth import RECORDING, Growth
from bouncy.run.interrupts import Interrupts
from bouncy.run.progress import ChainProgress, Progress, Reporter
from bouncy.run.sent import WorkerError
from bouncy.targets.contract import TargetError

# Share of the CPU seconds of a run that its warm-up takes at most, if its length is for us to choose.
_WARMUP_SHARE = 0.2
# A run is restarted, for a longer warm-up, when it is so many times as long as its warm-up.
_LONG_ENOUGH = 4
# A sweep that no run reaches.
_NEVER = 1 << 62
# Part of what is left of its time that a slice may take.
_LAST_PART = 0.25
# Seconds between two looks at the error of one chain, and how many times longer than a look that is at least.
_LOOK_EVERY, _LOOK_SHARE = 1.0, 100.0


class Session(Watcher):
    """One go at a run, until it is done, out of time, or interrupted.

    Parameters
    ----------
    growth : Growth
        The run.
    goal : Goal
        Where it is to stop.
    crew : Crew
        Who advances its chains.
    reporter : Reporter
        Who is told of its progress.
    judge : callable
        Looks at the standard errors, and returns a `Verdict`.
    chooses_warmup : bool
        Whether the length of the warm-up is for us to choose.
    checkpoint : Checkpoint, optional
        Where it is written.
    save : callable, optional
        Returns header and arrays of a checkpoint.
    """

    def __init__(
        self,
        growth: Growth,
        goal: Goal,
        crew: Crew,
        reporter: Reporter,
        judge: Callable[[], Verdict],
        chooses_warmup: bool,
        checkpoint: Checkpoint | None = None,
        save: Callable[[], tuple[dict[str, Any], dict[str, Any]]] | None = None,
    ) -> None:
        self._growth, self._goal, self._crew, self._reporter = growth, goal, crew, reporter
        self._judge, self._chooses_warmup = judge, chooses_warmup
        self._checkpoint, self._save = checkpoint, save
        self._interrupts = Interrupts()
        self._verdict: Verdict | None = None
        self._looked_at = 0  # draws
        self._seen: dict[int, _Seen] = {}
        self._first_cpu = growth.seconds
        self.errors: list[TargetError] = []

    def run(self) -> str:
        """Go on until there is a reason to stop, and return it."""
        with self._interrupts:
            try:
                self._crew.begin(self._growth.chains[0])
                self._write_checkpoint()
                reason = None
                while reason is None:
                    reason = self._step()
            except KeyboardInterrupt:  # between two goes of the crew, of a signal that someone else handles
                if self._interrupts.seen:
                    raise
                reason = "interrupt"
            except ChainInterrupt as error:
                raise error.error from None
            except WorkerError:
                self._drop(self._crew.errors)
                self._crew.go_back(self._growth.chains)
                self._growth.go_back_to_level()
                self._write_checkpoint()
                raise
            finally:
                self._reporter.close()
            if reason == "interrupt":
                self._growth.go_back_to_level()
        return reason

    def _step(self) -> str | None:
        """Advance all chains to the next moment at which something has to be decided, and decide it."""
        growth, end = self._growth, self._end()
        if growth.level < end and not self._out_of_time():
            self._drop(self._crew.advance(growth.chains, end, self))
        if self._interrupts.seen and growth.level < end:
            return "interrupt"
        reason = self._reached(end) if growth.level >= end or self._out_of_time() else None
        if reason is None and self._interrupts.seen:
            return "interrupt"
        if self._checkpoint is not None and self._checkpoint.due:
            self._write_checkpoint()
        return reason

    def _end(self) -> int:
        """Return the sweep at which something has to be decided next."""
        growth, goal = self._growth, self._goal
        if growth.stage < RECORDING:
            return growth.stage_end()
        draws = [goal.draws] if goal.draws is not None else []
        draws += [goal.next_look] if goal.until_se is not None else []
        return growth.begun + min(draws) * growth.per_draw if draws else _NEVER

    def _reached(self, end: int) -> str | None:
        """Return why to stop, or go over to the next stage."""
        growth, goal = self._growth, self._goal
        if growth.stage < RECORDING:
            if self._out_of_time() and not self._chooses_warmup:
                return "seconds"
            self._finish_trajectories(end)
            growth.next_stage(goal.draws or 0)
            return None
        if goal.draws is not None and growth.drawn >= goal.draws:
            return "draws"
        if goal.until_se is not None and growth.drawn >= goal.next_look:
            reason = self._look()
            if reason is not None:
                return reason
        return "seconds" if self._out_of_time() else None

    def _finish_trajectories(self, end: int) -> None:
        """Have draws begin where trajectories do, although the warm-up was cut short."""
        stride = self._growth.family.sampler.stride
        level = min(end, -(-self._growth.level // stride) * stride)
        if self._growth.level < level:
            self._drop(self._crew.advance(self._growth.chains, level, _Impatient(self)))

    def _look(self) -> str | None:
        """Judge the precision; begin to record anew where the warm-up was too short for a run as long as is needed."""
        growth, goal = self._growth, self._goal
        self._verdict = verdict = self._judge()
        self._looked_at = drawn = growth.drawn
        reason = goal.judge(verdict, drawn, growth.level)
        long = growth.sweeps >= _LONG_ENOUGH * growth.warmup
        spare = goal.seconds is None or growth.seconds < goal.seconds / WORTH_A_RESTART
        if reason is None and self._chooses_warmup and long and spare and verdict.needed > WORTH_A_RESTART:
            growth.restart()
            goal.look_again(drawn)
        return reason

    def _deadline(self) -> float:
        """Return the CPU seconds of a chain at which the present stage is over."""
        seconds, stage = self._goal.seconds, self._growth.stage
        if seconds is None:
            return math.inf
        if stage == RECORDING or not self._chooses_warmup:
            return seconds
        share = _WARMUP_SHARE * (0.5 if stage == 0 else 1.0)
        return self._first_cpu + share * (seconds - self._first_cpu)

    def _out_of_time(self) -> bool:
        """Return whether the CPU seconds of the present stage are spent."""
        return self._growth.seconds >= self._deadline()

    def _drop(self, errors: list[TargetError]) -> None:
        """Go on without the chains whose targets failed, if any are left."""
        if not errors:
            return
        self.errors += errors
        failed = {error.chain for error in errors}
        if all(chain.number in failed for chain in self._growth.chains):
            raise self.errors[0]
        self._growth.drop(failed)

    def _write_checkpoint(self) -> None:
        if self._checkpoint is not None and self._save is not None:
            self._checkpoint.write(*self._save(), self._growth.rows)

    # What the crew asks and tells

    def pause(self) -> bool:
        return (self._checkpoint is not None and self._checkpoint.due) or self._out_of_time()

    def urgent(self) -> bool:
        return self._interrupts.seen

    def interrupt(self) -> None:
        if self._interrupts.seen:
            raise KeyboardInterrupt
        self._interrupts.seen = True

    def slice_seconds(self) -> float:
        return max(1e-3, _LAST_PART * (self._deadline() - self._growth.seconds))

    def keep(self, chain: AnyChain, rows: Rows) -> None:
        self._growth.append(chain, rows)
        if self._reporter.wanted:
            self._seen.setdefault(chain.number, _Seen()).look(chain, self._growth)
        if self._reporter.due:
            self._reporter.report(self._progress())

    def _progress(self) -> Progress:
        growth = self._growth
        chains = tuple(self._chain_progress(chain) for chain in growth.chains)
        shares = [chain.done for chain in chains if chain.done is not None]
        return Progress(
            sampler=growth.family.sampler.name,
            stage="sampling" if growth.stage == RECORDING else "warm-up",
            done=sum(shares) / len(chains) if shares else None,
            left=self._left(),
            chains=chains,
        )

    def _chain_progress(self, chain: AnyChain) -> ChainProgress:
        seen = self._seen.get(chain.number, _Seen())
        draws = seen.sweeps // self._growth.per_draw if self._growth.stage == RECORDING else 0
        return ChainProgress(chain.number, self._share(seen), draws, seen.flips_per_second, seen.worst_se)

    def _share(self, seen: _Seen) -> float | None:
        """Return the largest share of any of the goals that a chain has reached."""
        growth, goal = self._growth, self._goal
        if growth.stage < RECORDING:
            shares = [seen.sweeps / max(growth.warmup, 1)]
        else:
            shares = [] if goal.draws is None else [seen.sweeps / (goal.draws * growth.per_draw)]
            if self._verdict is not None and math.isfinite(self._verdict.needed):
                shares.append(seen.sweeps / max(self._needed_sweeps(), 1.0))
        if goal.seconds is not None:
            shares.append(seen.cpu_seconds / goal.seconds)
        return min(max(shares), 1.0) if shares else None

    def _needed_sweeps(self) -> float:
        """Return how many sweeps the precision is expected to take."""
        assert self._verdict is not None
        return self._verdict.needed * self._looked_at * self._growth.per_draw

    def _left(self) -> str:
        """Return what is left to do, in words."""
        goal, verdict = self._goal, self._verdict
        if goal.until_se is None or self._growth.stage < RECORDING:
            return ""
        if verdict is None or math.isnan(verdict.worst):
            return f"until se {goal.until_se:.2g}"
        words = f"se {verdict.worst:.2g}, wanted {goal.until_se:.2g}"
        if verdict.disagree:
            return f"{words}, chains disagree"
        return f"{words}: {verdict.needed:.2g}x the draws" if verdict.needed > 1.0 else words


class _Impatient(Watcher):
    """A watcher that lets a few sweeps be finished."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def pause(self) -> bool:
        return False

    def urgent(self) -> bool:
        return self._session.urgent()

    def interrupt(self) -> None:
        self._session.interrupt()

    def keep(self, chain: AnyChain, rows: Rows) -> None:
        self._session.keep(chain, rows)


class _Seen:
    """What was last seen of a chain at rest."""

    def __init__(self) -> None:
        self.sweeps, self.cpu_seconds, self.flips_per_second, self.worst_se = 0, 0.0, 0.0, math.nan
        self._flips, self._next_look = 0, 0.0

    def look(self, chain: AnyChain, growth: Growth) -> None:
        flips = int(chain.events()[FLIPS])
        spent = chain.cpu_seconds - self.cpu_seconds
        if flips >= self._flips and spent > 0.0:
            self.flips_per_second = (flips - self._flips) / spent
        self._flips, self.cpu_seconds = flips, chain.cpu_seconds
        self.sweeps = chain.sweeps - (growth.begun if growth.stage == RECORDING else 0)
        now = time.perf_counter()
        if growth.stage == RECORDING and now >= self._next_look:
            self.worst_se = _worst_error(chain)
            self._next_look = now + max(_LOOK_EVERY, _LOOK_SHARE * (time.perf_counter() - now))


def _worst_error(chain: AnyChain) -> float:
    """Return the largest standard error of a mean, from the batches of one chain."""
    recorder = chain.recorder
    n = int(recorder.tally[CLOSED])
    if n < 4:
        return math.nan
    batch = chain.mean_per_sweep * float(recorder.tally[LENGTH])
    return float((recorder.mean[:n] / batch).std(axis=0, ddof=1).max() / np.sqrt(n))
