"""`bouncy.sample` and `bouncy.resume`: the front doors."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._samplable import RunType, Samplable
from bouncy._validation import as_seed_sequence, check_count, check_positive
from bouncy.recorders.contract import FLIPS, HITS
from bouncy.results.paths import PathRun
from bouncy.results.resuming import restored
from bouncy.results.run import Run
from bouncy.results.spins import SpinRun
from bouncy.run.checkpoint import Checkpoint, read
from bouncy.run.families import Family, family_of
from bouncy.run.goal import Goal, check_goal
from bouncy.run.growth import Growth
from bouncy.run.progress import Progress
from bouncy.run.within import Within
from bouncy.samplers.contract import NotErgodicWarning, Sampler

# Batches of all chains together never number fewer than this once there are as many sweeps; more of them where a run
# goes by its standard errors, which then have less noise themselves.
_BATCHES, _MANY_BATCHES = 16, 64
# Draws of each chain when nothing else says how long a run is.
_DRAWS = 1000

Function = Callable[[NDArray[Any]], Any]
Reports = bool | Callable[[Progress], object] | None
Executors = Executor | Callable[[], Executor] | None


class NoFlipWarning(UserWarning):
    """A run in which no flip was accepted."""


def sample(
    target: Samplable[RunType],
    sampler: str | Sampler | None = None,
    *,
    chains: int = 4,
    draws: int | None = None,
    seconds: float | None = None,
    until_se: float | None = None,
    se_of: str | Function = "mean",
    warmup: int | None = None,
    thin: int = 1,
    seed: int | np.random.SeedSequence | None = None,
    initial: ArrayLike | None = None,
    pairs: Literal["auto", "all", "edges", "none"] = "auto",
    keep: Literal["draws", "means", "path"] = "draws",
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = 30.0,
    threads: int | None = None,
    executor: Executors = None,
    progress: Reports = None,
) -> RunType:
    """Sample a distribution and return draws, expectations with error bars, and diagnostics.

    Parameters
    ----------
    target : Target, PiecewiseTarget or Within
        The distribution: of spins, for example a `bouncy.MRF`; of continuous or mixed variables, for example a
        `bouncy.TruncatedGaussian`; or a `bouncy.Within`, a Gibbs scheme in which one of these is a block.
    sampler : str or Sampler, optional
        For spins "bps-gaussian" (the default), "bps-exponential", "hmc", "hmc-exponential", "gibbs", "gibbs-random",
        "metropolis", "metropolis-random", or an object such as `bouncy.BPS("gaussian", refreshment=0.1)` or
        `bouncy.HMC(travel_time=2.5 * math.pi)`. For continuous targets "bps" (the default), "hmc", or an object such
        as `bouncy.piecewise.BPS(refreshment=0.05)`.
    chains : int
        Independent chains; they run in threads.
    draws : int, optional
        States kept from each chain, on a regular grid of the clock's time; 1000 unless `seconds` or `until_se` says
        when to stop. Where several of the three are given the run stops at whichever comes first, and `run.stopped_by`
        tells which that was.
    seconds : float, optional
        CPU seconds of each chain in compiled code, its warm-up included.
    until_se : float, optional
        Go on until the largest standard error is below this bound, with a margin for the noise of its own estimate. A
        run whose chains disagree, so that no standard error can be trusted, stops with `run.stopped_by ==
        "disagreement"` and a warning. How long it becomes depends on the seed, not on the speed of the machine. Chains
        can disagree only if there are several, which began in different states: a single chain that never left one
        of several modes has small standard errors, and is wrong. Use four at least where there may be modes.
    se_of : str or callable
        What has these standard errors: "mean" (of all sites), another estimate such as "pair_mean" or "path_mean", or a
        function that takes states, (n, d), and returns numbers, (n,) or (n, k). `run.expect` returns the mean of a
        function.
    warmup : int, optional
        Sweeps before anything is recorded; by default 200, or a quarter of the sweeps that follow, whichever is more,
        and for continuous targets no fewer than 10 sqrt(d). With `seconds` it takes a fifth of them at most; with
        `until_se` a run that turns out to have to become much longer than its warm-up begins to record anew. A sweep is
        the time in which d attempted flips are expected, and less in short trajectories of HMC, of which the default
        takes as many more; a trajectory is always finished. For continuous targets it is the time in which a particle
        on N(0, I) would cross d medians, or one trajectory of HMC.
    thin : int
        Sweeps, for HMC trajectories, from one draw to the next. Means use every sweep, and the whole path between them,
        in any case.
    seed : int or SeedSequence, optional
        Fixes every byte of the result, whatever the number of threads. `run.seed` tells what was used.
    initial : array_like, optional
        Spins to start from, shape (d,) or (chains, d); otherwise those of `target.start`, which are uniformly random
        unless the target knows better.
    pairs : {"auto", "all", "edges", "none"}
        Pairs whose means are recorded: all of them, those that interact, or none. "auto" is all up to d = 32, none
        beyond.
    keep : {"draws", "means", "path"}
        What is kept beside the means: states; scalar traces alone, in constant memory; or, of spins, the whole path as
        the sites and times of its flips, from which `run.replay` computes the state at any time. States and paths that
        are too large for the memory are kept in files.
    checkpoint : path, optional
        Folder to write the run to every now and then, so that `bouncy.resume` can go on with it, byte for byte,
        whatever became of its process. It must not hold a checkpoint already.
    every : float
        Seconds from one checkpoint to the next.
    threads : int, optional
        Number of threads; as many as cores by default. Changes the speed, never the result.
    executor : Executor or callable, optional
        Who runs the chains instead of threads of this process: any `concurrent.futures.Executor`, such as a
        `ProcessPoolExecutor`, the `get_executor()` of a Dask client, or those of loky and mpi4py, or a function that
        returns one and is called again when it breaks. Changes the speed, never the result.
    progress : bool or callable, optional
        Show a bar for each chain; by default when standard error is a terminal. A function is called with a `Progress`
        several times per second.

    Returns
    -------
    Run
        Ctrl-C returns what there is, with a warning and `run.completed` false.

    Raises
    ------
    TargetError
        A function of the target raised or returned what is no cost. Its chain stops there, the others go on to the end
        and are in the error's attribute `run`.
    CheckpointError
        The folder holds a checkpoint already, or cannot be written to.
    WorkerError
        The executor broke. What was finished is in the error's attribute `run`.

    Examples
    --------
    >>> import bouncy
    >>> target = bouncy.MRF.random(10, seed=1)
    >>> run = bouncy.sample(target, chains=2, draws=500, seed=0)
    >>> run.draws.shape
    (2, 500, 10)
    >>> bool(abs(run.mean - bouncy.exact(target).mean).max() < 0.05)
    True
    """
    chains, thin = check_count("chains", chains), check_count("thin", thin)
    goal = check_goal(draws, seconds, until_se, se_of)
    open_ended = seconds is not None or until_se is not None
    if draws is None and not open_ended:
        goal.draws = _DRAWS
    _check_choice("pairs", pairs, ("auto", "all", "edges", "none"))
    _check_choice("keep", keep, ("draws", "means", "path"))
    batches = _BATCHES if until_se is None else _MANY_BATCHES
    family = family_of(target, sampler, pairs, 2 * max(2, -(-batches // chains)), thin)
    _check_kept(family, goal, keep)
    options: dict[str, Any] = {
        **_resources(threads, executor, progress),
        "thin": thin,
        "chooses_warmup": warmup is None and open_ended,
    }
    every = check_positive("every", every)
    stride = family.sampler.stride
    if warmup is None:
        warmup = family.warmup_sweeps(0 if until_se is not None else (goal.draws or 0) * thin)
    warmup = -(-check_count("warmup", warmup, 0) // stride) * stride
    root = as_seed_sequence(seed)
    options["seed"] = as_seed_sequence(root) if isinstance(seed, np.random.SeedSequence) else root.entropy
    starts = family.starts(initial, chains)
    pool = [
        family.new_chain(child, start, number)
        for number, (child, start) in enumerate(zip(root.spawn(chains), starts, strict=True))
    ]
    kept = None if checkpoint is None else Checkpoint.new(checkpoint, every)
    function = goal.se_of if callable(goal.se_of) else None
    growth = Growth(family, pool, warmup, keep, None if kept is None else kept.folder, function)
    return _go(_new_run(target, family, growth, options), kept, goal)  # type: ignore[return-value]


def resume(
    path: str | os.PathLike[str],
    target: Samplable[RunType],
    *,
    sampler: Sampler | None = None,
    draws: int | None = None,
    seconds: float | None = None,
    until_se: float | None = None,
    se_of: Function | None = None,
    every: float = 30.0,
    threads: int | None = None,
    executor: Executors = None,
    progress: Reports = None,
) -> RunType:
    """Go on with a run from its checkpoint, and return it when it is done.

    The result has the same bytes as that of the run without an interruption, whatever ran the chains before and does so
    now. The folder is written to as before.

    Parameters
    ----------
    path : path
        The folder that was passed as `checkpoint` to `bouncy.sample`.
    target : Target, PiecewiseTarget or Within
        The model that was sampled. Another one is refused.
    sampler : Sampler, optional
        The sampler, if it is none of ours.
    draws, seconds, until_se : optional
        Where to stop, if not where the run was meant to: draws and CPU seconds of each chain in total, those before the
        interruption included.
    se_of : callable, optional
        The function of states that the run goes by, if it goes by one.
    every, threads, executor, progress
        As for `bouncy.sample`.

    Returns
    -------
    Run

    Raises
    ------
    CheckpointError
        There is no checkpoint, all of it is damaged, it is of another model or sampler, or another process writes to
        it. A single damaged generation is passed over with a `CheckpointWarning`.

    Examples
    --------
    >>> import tempfile, bouncy
    >>> target = bouncy.MRF.random(10, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = bouncy.sample(target, draws=200, warmup=100, seed=0, checkpoint=folder)
    ...     run = bouncy.resume(folder, target, draws=500)
    >>> bool((run.draws == bouncy.sample(target, draws=500, warmup=100, seed=0).draws).all())
    True
    """
    resources = _resources(threads, executor, progress)
    every = check_positive("every", every)
    kept = Checkpoint(Path(path), every)
    try:
        found = read(path, lambda header, arrays: restored(kept.folder, target, sampler, se_of, header, arrays))
        other = check_goal(draws, seconds, until_se, "mean")
        if not (draws is None and seconds is None and until_se is None):
            goal = found.goal
            goal.draws, goal.seconds, goal.until_se = other.draws, other.seconds, other.until_se
        kept.follow(found.state, found.generation, found.run._growth.rows)
    except BaseException:
        kept.close()
        raise
    return _go(found.run.with_resources(resources), kept, found.goal)  # type: ignore[return-value]


def _new_run(target: Any, family: Family, growth: Growth, options: dict[str, Any]) -> Run:
    return (PathRun if family.kind == "paths" else SpinRun)(target, family.sampler, growth, options)


def _go(run: Run, checkpoint: Checkpoint | None, goal: Goal) -> Run:
    """Have a run go on to its goal, and warn of what a user should know before looking at results at all."""
    run.attach(checkpoint)
    run.go_on(goal, run.chooses_warmup)
    _warn(run)
    return run


def _resources(threads: Any, executor: Any, progress: Any) -> dict[str, Any]:
    """Return who runs the chains and who is told of it, after checking them."""
    if executor is not None and not isinstance(executor, Executor) and not callable(executor):
        raise TypeError(
            f"executor must be a concurrent.futures.Executor or a function that returns one, got {executor!r:.60}; a "
            "Dask client has client.get_executor()"
        )
    if executor is not None and threads is not None:
        raise ValueError("threads are those of this process; with executor= its workers run the chains")
    return {
        "threads": None if threads is None else check_count("threads", threads),
        "executor": executor,
        "progress": progress,
    }


def _check_kept(family: Family, goal: Goal, keep: str) -> None:
    """Raise where what is to be kept, or looked at, cannot be."""
    if keep == "path" and (family.kind != "spins" or isinstance(family.target, Within)):
        raise ValueError(
            f"keep is 'path', which is for spins; {type(family.target).__name__} can keep 'draws' or 'means' (means "
            "are integrals over the whole path in any case)"
        )
    if callable(goal.se_of):
        if keep == "path":
            raise ValueError("se_of is a function of states, which keep='path' does not have; use 'draws' or 'means'")
        return
    estimates = (PathRun if family.kind == "paths" else SpinRun)._estimates
    if goal.se_of not in estimates:
        raise ValueError(f"se_of is {goal.se_of!r}; expected one of {', '.join(estimates)}, or a function of states")
    if "pair" in goal.se_of and family.pairs == "none":
        raise ValueError(f"se_of is {goal.se_of!r}, but pairs are not recorded; pass pairs='all' or pairs='edges'")


def _warn(run: Run) -> None:
    """Warn of what a user should know before looking at results at all."""
    events = run.events()
    if isinstance(run, SpinRun) and events[FLIPS] == 0 and run.completed:
        warnings.warn(
            "no flip was accepted in the whole run: every state next to the current one is very improbable. The "
            "means describe one state per chain; start chains from several states (initial=) and compare them"
            if events[HITS]
            else "no flip was attempted in the whole run, which is too short for it; ask for more draws",
            NoFlipWarning,
            stacklevel=4,
        )
    for remark in run.sampler.remarks(int(events[HITS]), int(events[FLIPS])):
        warnings.warn(remark, NotErgodicWarning, stacklevel=4)


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}; expected one of: {', '.join(choices)}")
