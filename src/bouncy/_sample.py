"""`bouncy.sample` and `bouncy.resume`: the front doors."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._renamed import renamed
from bouncy._samplable import RunType, Samplable
from bouncy._validation import as_seed_sequence, check_count, check_positive
from bouncy.results import run_type
from bouncy.results.data import Setup
from bouncy.run.driver import Driver, Resources, continued, restored_workers
from bouncy.run.endings import warn_about
from bouncy.run.estimate import check_feasible
from bouncy.run.goal import Goal, check_goal
from bouncy.run.interrupts import Interrupts
from bouncy.run.progress import Progress, announced
from bouncy.samplers import as_sampler
from bouncy.samplers.contract import Sampler
from bouncy.storage.checkpoint import Checkpoint, CheckpointError, read_checkpoint

# Batches of all chains together never number fewer than this once there are as many sweeps; more of them where a run
# goes by its standard errors, which then have less noise themselves.
_BATCHES, _MANY_BATCHES = 16, 64
# Draws of each chain when nothing else says how long a run is.
_DRAWS = 1000
# Chains from which on they share clocks, and how many share one at most, by default.
_FLOCK, _LANES = 8, 32
# Place of the seed of a pilot among those of chains, of which there are fewer.
_PILOT = 1 << 31
# Up to this dimension all pairs are recorded by default.
_PAIRS_UP_TO = 32

Function = Callable[[NDArray[Any]], Any]
Reports = bool | Callable[[Progress], object] | None
Executors = Executor | Callable[[], Executor] | None


@renamed(every="checkpoint_every")
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
    checkpoint_every: float = 30.0,
    lanes: int | None = None,
    threads: int | None = None,
    executor: Executors = None,
    progress: Reports = None,
) -> RunType:
    """Sample a distribution and return draws, expectations with error bars, and diagnostics.

    Parameters
    ----------
    target : Target, PathTarget or Within
        The distribution: of spins, for example a `bouncy.MRF`; of continuous or mixed variables, for example a
        `bouncy.TruncatedGaussian` or a `bouncy.Density`; or a `bouncy.Within`, a Gibbs scheme in which one of these is
        a block.
    sampler : str or Sampler, optional
        For spins "bps-gaussian" (the default), "bps-exponential", "hmc", "hmc-exponential", "gibbs", "gibbs-random",
        "metropolis", "metropolis-random", "metropolis-swap" (the default for targets with a fixed sum or one-hot
        groups), "metropolis-mixed" (flips and swaps), "tempered" where modes are far apart, "swendsen-wang" or "wolff"
        for ferromagnets near their transition and below it, "auto" to leave the choice to a pilot, or an object such as
        `bouncy.BPS("gaussian", refreshment=0.1)` or `bouncy.Tempered(rungs=24)`. For continuous targets "bps" (the
        default), "hmc" (Gaussians), "metropolis" (a `Density`), or an object such as
        `bouncy.piecewise.BPS(refreshment=0.5)`.
    chains : int
        Number of chains, which run in threads; from eight on see `lanes`.
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
        The estimate that has these standard errors: "mean" (of all sites), another one such as "pair_mean", "path_mean"
        or, of tempered chains, "log_z"; or a function that takes states, (n, d), and returns numbers, (n,) or (n, k).
        `run.expect` returns the mean of a function. A site that never moves neither ends a run by its error nor keeps
        it from ending.
    warmup : int, optional
        Sweeps, for HMC trajectories, before anything is recorded; by default 200 sweeps, or a quarter of what follows,
        whichever is more, and for continuous targets no fewer than 10 sqrt(d). With `seconds` it takes a fifth of them
        at most; with `until_se` a run that turns out to have to become much longer than its warm-up begins to record
        anew. A sweep is the time in which d attempted flips are expected; the default of HMC is as many trajectories as
        take that long. For continuous targets it is the time in which a particle on N(0, I) would cross d medians, or
        one trajectory of HMC.
    thin : int
        Sweeps, for HMC trajectories, from one draw to the next. Means are recorded once a sweep in any case, and use
        the whole path between draws.
    seed : int or SeedSequence, optional
        Fixes every byte of the result, whatever the number of threads. `run.seed` tells what was used.
    initial : array_like, optional
        Spins to start from, shape (d,) or (chains, d); otherwise those of `target.start`, which are uniformly random
        unless the target knows better. A series or data frame is matched to the sites by its labels.
    pairs : {"auto", "all", "edges", "none"}
        Pairs whose means are recorded: all of them, those that interact, or none. "auto" is all up to d = 32, none
        beyond.
    keep : {"draws", "means", "path"}
        What is kept beside the means: states; scalar traces alone, in constant memory; or, of spins, the whole path as
        the sites and times of its flips, from which `run.replay` computes the state at any time. States and paths that
        are too large for the memory are kept in files.
    checkpoint : path, optional
        Folder that the run is written to at regular times, so that `bouncy.resume` can continue it, byte for byte,
        after its process has ended in any way. It must not hold a checkpoint already.
    checkpoint_every : float
        Seconds from one checkpoint to the next.
    lanes : int, optional
        Chains of an `MRF` or `RBM` that share a clock at most, which makes each of them several times faster; averages
        over chains are uncorrelated all the same (docs/lanes.md). By default 32 if there are eight chains or more and
        the sampler is BPS, Metropolis or Gibbs; 1 gives each chain a clock of its own.
    threads : int, optional
        Number of threads; as many as cores by default. Changes the speed, never the result.
    executor : Executor or callable, optional
        Runs the chains instead of threads of this process: any `concurrent.futures.Executor`, such as a
        `ProcessPoolExecutor`, the `get_executor()` of a Dask client, or those of loky and mpi4py, or a function that
        returns one and is called again when it breaks. Changes the speed, never the result.
    progress : bool or callable, optional
        Show a bar for each chain, and say when something has to be compiled first; by default in terminals and
        notebooks. A function is called with a `Progress` several times per second.

    Returns
    -------
    Run
        After Ctrl-C the run so far, with a warning and `run.completed` false.

    Raises
    ------
    TargetError
        A function of the target raised or returned what is no cost. Its chain stops there, the others go on to the end
        and are in the error's attribute `run`.
    CheckpointError
        The folder holds a checkpoint already, or cannot be written to.
    ValueError
        An argument is wrong, or the run cannot work: its chains need more memory than there is, its draws more memory
        and disk, or 100 days at least. The error has the estimate. Where `seconds` or `until_se` may end the run, only
        the memory of the chains counts. A run of more than a day, or half of the memory, begins with a
        `LargeRunWarning`.
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
    if not isinstance(target, Samplable):
        raise TypeError(f"target must be a bouncy target such as bouncy.MRF(M, r), got {type(target).__name__}")
    chains, thin = check_count("chains", chains), check_count("thin", thin)
    warmup = None if warmup is None else check_count("warmup", warmup, 0)
    goal = check_goal(draws, seconds, until_se, se_of)
    open_ended = seconds is not None or until_se is not None
    if draws is None and not open_ended:
        goal.draws = _DRAWS
    _check_choice("pairs", pairs, ("auto", "all", "edges", "none"))
    _check_choice("keep", keep, ("draws", "means", "path"))
    if pairs == "auto":
        pairs = "all" if target.d <= _PAIRS_UP_TO else "none"
    root = as_seed_sequence(seed)
    setup = Setup(
        target,
        as_sampler(target, sampler),
        as_seed_sequence(root) if isinstance(seed, np.random.SeedSequence) else root.entropy,  # type: ignore[arg-type]
        thin,
        keep,
        pairs,
        slots=2 * max(2, -(-(_BATCHES if until_se is None else _MANY_BATCHES) // chains)),
        chooses_warmup=warmup is None and open_ended,
    )
    _check_kept(setup, goal)
    resources = _resources(threads, executor, progress)
    every = check_positive("checkpoint_every", checkpoint_every)
    with announced(progress):
        with Interrupts(at_once=True):
            used, choice = setup.sampler.prepared(target, _pilot_seed(root), setup.pairs)
            setup = replace(setup, sampler=used, choice=choice)
            setup = replace(setup, lanes=_lanes(setup, chains, lanes))
            check_feasible(setup, chains, goal, resources, None if checkpoint is None else Path(checkpoint))
            if warmup is None:
                warmup = used.default_warmup(target, 0 if until_se is not None else (goal.draws or 0) * thin)
            warmup_sweeps = warmup * used.stride
            workers = setup.new_workers(root.spawn(chains), _starts(target, initial, chains))
        kept = None if checkpoint is None else Checkpoint.new(checkpoint, every)
        run = Driver(setup, workers, warmup_sweeps, goal, resources, kept).run()
    warn_about(run)
    return run  # type: ignore[return-value]


@renamed(draws="total_draws", seconds="total_seconds", every="checkpoint_every")
def resume(
    path: str | os.PathLike[str],
    target: Samplable[RunType],
    *,
    sampler: Sampler | None = None,
    total_draws: int | None = None,
    total_seconds: float | None = None,
    until_se: float | None = None,
    se_of: Function | None = None,
    checkpoint_every: float = 30.0,
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
    target : Target, PathTarget or Within
        The model that was sampled. Another one is refused.
    sampler : Sampler, optional
        The sampler, if it is none of ours.
    total_draws, total_seconds, until_se : optional
        Where to stop, if not where the run was meant to: draws and CPU seconds of each chain in total, those before the
        interruption included. (`run.extend` takes those that are to be added.)
    se_of : callable, optional
        The function of states that the run goes by, if it goes by one.
    checkpoint_every, threads, executor, progress
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
    ...     run = bouncy.resume(folder, target, total_draws=500)
    >>> bool((run.draws == bouncy.sample(target, draws=500, warmup=100, seed=0).draws).all())
    True
    """
    resources = _resources(threads, executor, progress)
    every = check_positive("checkpoint_every", checkpoint_every)
    folder = Path(path).absolute()
    if not isinstance(target, Samplable):
        raise CheckpointError(folder, f"target must be the bouncy target that was sampled, got {target!r:.60}")
    other = check_goal(total_draws, total_seconds, until_se, "mean", prefix="total_")
    checkpoint = Checkpoint(folder, every)
    try:
        asked = None if sampler is None else as_sampler(target, sampler)
        run, state = read_checkpoint(folder, target, asked, se_of, every, check=lambda run: restored_workers(run._data))
        goal = replace(run._data.goal)
        if callable(se_of) or run._data.records.tracked is not None:
            if not callable(se_of):
                raise CheckpointError(folder, "the run goes by the standard error of a function; pass it as se_of=")
            goal.se_of = se_of
        if not (total_draws is None and total_seconds is None and until_se is None):
            goal.draws, goal.seconds, goal.until_se = other.draws, other.seconds, other.until_se
        check_feasible(run._data.setup, run.chains, goal, resources, folder, run._data.drawn)
        checkpoint.follow(run, state)
    except BaseException:
        checkpoint.close()
        raise
    with announced(progress):
        longer = continued(run, goal, resources, checkpoint)
    warn_about(longer)
    return longer  # type: ignore[return-value]


def _pilot_seed(root: np.random.SeedSequence) -> np.random.SeedSequence:
    """Return a seed for what is done before chains begin, which have those that are spawned."""
    return np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, _PILOT))


def _lanes(setup: Setup, chains: int, asked: int | None) -> int:
    """Return how many chains share a clock at most."""
    if asked is None and chains < _FLOCK:
        return 1
    lanes = _LANES if asked is None else check_count("lanes", asked)
    refusal = None if lanes == 1 else setup.refusal_of_lanes()
    if refusal is None:
        return min(lanes, chains)
    if asked is None:
        return 1
    raise ValueError(f"lanes is {lanes}, but {refusal}; leave lanes out, or pass lanes=1")


def _starts(target: Samplable[Any], initial: ArrayLike | None, chains: int) -> list[Any]:
    """Return the start of each chain, None where the target is to choose."""
    if initial is None:
        return [None] * chains
    values = target.check_states("initial", initial)
    if values.ndim == 1:
        return [values] * chains
    if values.shape != (chains, target.d):
        raise ValueError(f"initial has shape {values.shape}; expected ({target.d},) or ({chains}, {target.d})")
    return list(values)


def _resources(threads: Any, executor: Any, progress: Any) -> Resources:
    """Return what runs the workers and where progress is shown, after checking them."""
    if executor is not None and not isinstance(executor, Executor) and not callable(executor):
        raise TypeError(
            f"executor must be a concurrent.futures.Executor or a function that returns one, got {executor!r:.60}; a "
            "Dask client has client.get_executor()"
        )
    if executor is not None and threads is not None:
        raise ValueError("threads are those of this process; with executor= its processes run the chains")
    return Resources(None if threads is None else check_count("threads", threads), executor, progress)


def _check_kept(setup: Setup, goal: Goal) -> None:
    """Raise where what is to be kept, or looked at, cannot be."""
    target = setup.target
    if setup.keep == "path" and (target.kind != "spins" or target.sampled is not target):
        raise ValueError(
            f"keep is 'path', which is for spins; {type(target).__name__} can keep 'draws' or 'means' (means are "
            "integrals over the whole path in any case)"
        )
    if callable(goal.se_of):
        if setup.keep == "path":
            raise ValueError("se_of is a function of states, which keep='path' does not have; use 'draws' or 'means'")
        return
    estimates = run_type(setup)._estimates
    if goal.se_of not in estimates:
        raise ValueError(f"se_of is {goal.se_of!r}; expected one of {', '.join(estimates)}, or a function of states")
    if "pair" in goal.se_of and setup.pairs == "none":
        raise ValueError(f"se_of is {goal.se_of!r}, but pairs are not recorded; pass pairs='all' or pairs='edges'")


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}; expected one of: {', '.join(choices)}")
