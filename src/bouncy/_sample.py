"""`bouncy.sample`: the front door."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._validation import as_seed_sequence, check_count, check_spins
from bouncy.recorders.contract import FLIPS, HITS
from bouncy.recorders.pairs import Pairs, all_pairs, edge_pairs, no_pairs
from bouncy.recorders.recorder import new_recorder
from bouncy.results.run import Run
from bouncy.run.chain import Chain
from bouncy.run.workers import run_chains
from bouncy.samplers import as_sampler
from bouncy.samplers.contract import NotErgodicWarning, Sampler
from bouncy.targets.contract import Target

# Up to this dimension all pairs are recorded unless the user says otherwise.
_PAIRS_UP_TO = 32
# Batches of all chains together never number fewer than this once there are as many sweeps.
_BATCHES = 16


class NoFlipWarning(UserWarning):
    """A run in which no flip was accepted."""


def sample(
    target: Target,
    sampler: str | Sampler = "bps-gaussian",
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
) -> Run:
    """Sample a binary distribution and return draws, means with error bars, and diagnostics.

    Parameters
    ----------
    target : Target
        The distribution, for example a `bouncy.MRF`.
    sampler : str or Sampler
        "bps-gaussian", "bps-exponential", "hmc", "hmc-exponential", "gibbs", "gibbs-random", "metropolis",
        "metropolis-random", or an object such as `bouncy.BPS("gaussian", refreshment=0.1)` or
        `bouncy.HMC(travel_time=2.5 * math.pi)`.
    chains : int
        Independent chains; they run in threads.
    draws : int
        States kept from each chain, on a regular grid of the clock's time.
    warmup : int, optional
        Sweeps before anything is recorded; by default 200, or a quarter of the sweeps that follow, whichever is more. A
        sweep is the time in which d attempted flips are expected, and less in short trajectories of HMC, of which the
        default takes as many more; a trajectory is always finished.
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
    if not isinstance(target, Target):
        raise TypeError(f"target must be a bouncy target such as bouncy.MRF(M, r), got {type(target).__name__}")
    sampler = as_sampler(sampler)
    chains, draws, thin = check_count("chains", chains), check_count("draws", draws), check_count("thin", thin)
    warmup = _warmup_sweeps(sampler, target.d, draws * thin) if warmup is None else check_count("warmup", warmup, 0)
    stride = sampler.stride
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
    slots = 2 * max(2, -(-_BATCHES // chains))
    starts = _starts(initial, chains, target.d)
    pool = [
        Chain(target, sampler, child, start, slots, thin, _new_pairs(target, pairs, slots), number)
        for number, (child, start) in enumerate(zip(root.spawn(chains), starts, strict=True))
    ]
    errors = run_chains(pool, warmup, threads, progress, f"{sampler.name}, warm-up") if warmup else []
    pool = [chain for chain in pool if chain.number not in {error.chain for error in errors}]
    if not pool:
        raise errors[0]
    for chain in pool:
        chain.recorder = new_recorder(target.d, slots, thin * stride, _new_pairs(target, pairs, slots))
    run = Run(target, sampler, pool, options)
    run.take(draws)
    if errors:
        errors[0].run = run
        raise errors[0]
    events = np.sum([chain.events() for chain in pool], axis=0)
    if events[FLIPS] == 0:
        warnings.warn(
            "no flip was accepted in the whole run: every state next to the current one is very improbable. The "
            "means describe one state per chain; start chains from several states (initial=) and compare them"
            if events[HITS]
            else "no flip was attempted in the whole run, which is too short for it; ask for more draws",
            NoFlipWarning,
            stacklevel=2,
        )
    for remark in sampler.remarks(int(events[HITS]), int(events[FLIPS])):
        warnings.warn(remark, NotErgodicWarning, stacklevel=2)
    return run


def _warmup_sweeps(sampler: Sampler, d: int, draws: int) -> int:
    """Return the default length of the warm-up, whose sweeps have d expected attempts even where others have fewer."""
    share = sampler.sweep_time(d) / sampler.clock.sweep_time(d)
    return max(round(200 / share), draws * sampler.stride // 4)


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}; expected one of: {', '.join(choices)}")


def _new_pairs(target: Target, pairs: str, slots: int) -> Pairs:
    _check_choice("pairs", pairs, ("auto", "all", "edges", "none"))
    if pairs == "auto":
        pairs = "all" if target.d <= _PAIRS_UP_TO else "none"
    if pairs == "all":
        return all_pairs(target.d, slots)
    if pairs == "none":
        return no_pairs()
    pattern = target.edges()
    if pattern is None:
        raise ValueError(f"pairs is 'edges', but {type(target).__name__} has no edges; use 'all' or 'none'")
    return edge_pairs(pattern, slots)


def _starts(initial: ArrayLike | None, chains: int, d: int) -> list[NDArray[np.int8] | None]:
    if initial is None:
        return [None] * chains
    spins = check_spins(initial, d, "initial")
    if spins.ndim == 1:
        return [spins] * chains
    if spins.shape != (chains, d):
        raise ValueError(f"initial has shape {spins.shape}; expected ({d},) or ({chains}, {d})")
    return list(spins)
