"""`bouncy.sample`: the front door."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from bouncy._samplable import RunType, Samplable
from bouncy._validation import as_seed_sequence, check_count
from bouncy.piecewise.contract import PathSampler
from bouncy.recorders.contract import FLIPS, HITS
from bouncy.results.paths import PathRun
from bouncy.results.run import Run
from bouncy.results.spins import SpinRun
from bouncy.run.contract import AnyChain
from bouncy.run.families import Family, family_of
from bouncy.run.workers import run_chains
from bouncy.samplers.contract import NotErgodicWarning, Sampler
from bouncy.targets.contract import TargetError

# Batches of all chains together never number fewer than this once there are as many sweeps.
_BATCHES = 16


class NoFlipWarning(UserWarning):
    """A run in which no flip was accepted."""


def sample(
    target: Samplable[RunType],
    sampler: str | Sampler | PathSampler | None = None,
    *,
    chains: int = 4,
    draws: int = 1000,
    warmup: int | None = None,
    thin: int = 1,
    seed: int | np.random.SeedSequence | None = None,
    initial: ArrayLike | None = None,
    pairs: Literal["auto", "all", "edges", "none"] = "auto",
    keep: Literal["draws", "means"] = "draws",
    threads: int | None = None,
    progress: bool | None = None,
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
    draws : int
        States kept from each chain, on a regular grid of the clock's time.
    warmup : int, optional
        Sweeps before anything is recorded; by default 200, or a quarter of the sweeps that follow, whichever is more,
        and for continuous targets no fewer than 10 sqrt(d). A sweep is the time in which d attempted flips are
        expected, and less in short trajectories of HMC, of which the default takes as many more; a trajectory is always
        finished. For continuous targets it is the time in which a particle on N(0, I) would cross d medians, or one
        trajectory of HMC.
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
    keep : {"draws", "means"}
        Whether states are stored, or means and scalar traces alone.
    threads : int, optional
        Number of threads; as many as cores by default. Changes the speed, never the result.
    progress : bool, optional
        Show a progress bar; by default when standard error is a terminal.

    Returns
    -------
    Run

    Raises
    ------
    TargetError
        A function of the target raised or returned what is no cost. Its chain stops there, the others go on to the end
        and are in the error's attribute `run`.

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
    chains, draws, thin = check_count("chains", chains), check_count("draws", draws), check_count("thin", thin)
    _check_choice("pairs", pairs, ("auto", "all", "edges", "none"))
    slots = 2 * max(2, -(-_BATCHES // chains))
    family = family_of(target, sampler, pairs, slots, thin)
    stride = family.sampler.stride
    warmup = family.warmup_sweeps(draws * thin) if warmup is None else check_count("warmup", warmup, 0)
    warmup = -(-warmup // stride) * stride
    threads = None if threads is None else check_count("threads", threads)
    _check_choice("keep", keep, ("draws", "means"))
    root = as_seed_sequence(seed)
    options: dict[str, Any] = {
        "seed": as_seed_sequence(root) if isinstance(seed, np.random.SeedSequence) else root.entropy,
        "warmup": warmup,
        "thin": thin,
        "keep": keep,
        "threads": threads,
        "progress": progress,
    }
    starts = family.starts(initial, chains)
    pool = [
        family.new_chain(child, start, number)
        for number, (child, start) in enumerate(zip(root.spawn(chains), starts, strict=True))
    ]
    pool, errors = _warm_up(family, pool, warmup, threads, progress)
    run = (PathRun if family.kind == "paths" else SpinRun)(target, family.sampler, pool, options)
    run.take(draws)
    if errors:
        errors[0].run = run
        raise errors[0]
    _warn(run, pool)
    return run  # type: ignore[return-value]


def _warm_up(
    family: Family, pool: list[AnyChain], sweeps: int, threads: int | None, progress: bool | None
) -> tuple[list[AnyChain], list[TargetError]]:
    """Warm chains up; return those that can go on, ready to record, and what the others failed with.

    The second half is recorded by itself: it shows how far states reach.
    """
    errors: list[TargetError] = []
    stride = family.sampler.stride
    first = sweeps // 2 // stride * stride
    for part in (first, sweeps - first):
        if part:
            errors += run_chains(pool, part, threads, progress, f"{family.sampler.name}, warm-up")
        pool = [chain for chain in pool if chain.number not in {error.chain for error in errors}]
        if not pool:
            raise errors[0]
        family.record(pool)
    return pool, errors


def _warn(run: Run, pool: Sequence[AnyChain]) -> None:
    """Warn of what a user should know before looking at results at all."""
    events = np.sum([chain.events() for chain in pool], axis=0)
    if isinstance(run, SpinRun) and events[FLIPS] == 0:
        warnings.warn(
            "no flip was accepted in the whole run: every state next to the current one is very improbable. The "
            "means describe one state per chain; start chains from several states (initial=) and compare them"
            if events[HITS]
            else "no flip was attempted in the whole run, which is too short for it; ask for more draws",
            NoFlipWarning,
            stacklevel=3,
        )
    for remark in run.sampler.remarks(int(events[HITS]), int(events[FLIPS])):
        warnings.warn(remark, NotErgodicWarning, stacklevel=3)


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}; expected one of: {', '.join(choices)}")
