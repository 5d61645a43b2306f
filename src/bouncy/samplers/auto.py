"""A sampler that chooses itself: by a pilot, as a function of the seed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bouncy._samplable import Samplable
from bouncy.clocks.contract import Clock
from bouncy.samplers.bps import BPS
from bouncy.samplers.contract import Named, Sampler, SpinSampler
from bouncy.samplers.gibbs import Gibbs
from bouncy.samplers.metropolis import Metropolis
from bouncy.samplers.metropolis_mixed import MetropolisMixed
from bouncy.samplers.metropolis_swap import MetropolisSwap
from bouncy.samplers.swendsen_wang import SwendsenWang
from bouncy.samplers.tempered import Tempered
from bouncy.targets.contract import Target
from bouncy.targets.gauge import ferromagnet
from bouncy.targets.mrf import MRF
from bouncy.workers.contract import Plan, Worker

if TYPE_CHECKING:
    from bouncy.results.spins import SpinRun

# Chains of a pilot, their draws, and their warm-up.
_CHAINS, _DRAWS, _WARMUP = 8, 400, 200
# Samplers in the order in which they are tried, and what an attempted flip costs beside that of the first: measured
# (`make bench`), and the same on every machine.
_CANDIDATES: tuple[tuple[SpinSampler, float], ...] = ((BPS("gaussian"), 1.0), (Metropolis(), 0.8), (Gibbs(), 0.9))
# Swaps with candidates, most of whose pairs do not differ.
_MIXED = (MetropolisMixed(), 0.4)
# The same for a sweep of all clusters: for each site, and for each neighbour of it.
_CLUSTER_COST, _NEIGHBOUR_COST = 0.3, 0.2
# R-hat of a trace above which chains are taken to be apart; a short pilot has 1.02 by chance.
_APART = 1.1
# The default stays unless another sampler needs less than this share of its work for the same error: a pilot is short.
_WORTH_IT = 0.8
# States and sites at which ties are looked for, and costs that are ties.
_STATES, _SITES, _TIE = 4, 256, 1e-9
# Logarithm of the number of allowed states below which there is one.
_ONE_STATE = 1e-6


@dataclass(frozen=True)
class Auto(SpinSampler):
    """Choose among BPS, Metropolis, Gibbs and tempered chains by a short pilot, whose draws are not used.

    On targets restricted by `fixed_sum` or `one_hot` the choice is between swaps and tempered swaps; on targets with
    candidates for swaps (`VariableSelection`) flips and swaps are tried as well.

    Where the chains of the pilot disagree, or keep to modes of their own, the run is tempered. Otherwise it is done by
    the sampler with the smallest squared error of the means per unit of work. For a ferromagnet Swendsen-Wang is tried
    as well; without fields, where all means are 0, effective samples of log p and |magnetisation| per unit of work
    decide. Work is counted, not timed, so that the seed fixes every byte. `run.sampler` is what was chosen, and
    `run.diagnostics["auto"]` says why.

    Examples
    --------
    >>> import bouncy
    >>> run = bouncy.sample(bouncy.MRF.random(10, sigma_M=2.0, sigma_r=0.1, seed=3), "auto", draws=200, seed=0)
    >>> run.sampler.name
    'tempered'
    """

    @property
    def name(self) -> str:
        return "auto"

    @property
    def clock(self) -> Clock:
        return _CANDIDATES[0][0].clock

    def refusal_of_lanes(self, target: Samplable[Any]) -> str | None:
        return _CANDIDATES[0][0].refusal_of_lanes(target)

    def refusal(self, target: Target) -> str | None:
        return None

    def start(self, target: Target, seed: np.random.SeedSequence) -> tuple[Any, Any]:
        raise TypeError("'auto' chooses a sampler for a target, which a block of a scheme does not have; name one")

    def workers(
        self, target: Any, plan: Plan, seeds: Sequence[np.random.SeedSequence], starts: Sequence[Any]
    ) -> list[Worker]:
        raise TypeError("'auto' is replaced by what it chooses before a run begins")

    def prepared(self, target: Any, seed: np.random.SeedSequence, pairs: str = "none") -> tuple[Sampler, str]:
        """Return the sampler that a pilot asks for, with its settings, and why."""
        if not isinstance(target, Target):
            raise ValueError(f"'auto' chooses among samplers of spins, which {type(target).__name__} is not made of")
        from bouncy.run.progress import steps_of_pilot

        tempered_seed, pilot_seed = seed.spawn(2)
        candidates = _candidates(target)
        runs, apart = {}, ""
        if target.constraint is not None and target.log_size < _ONE_STATE:
            return candidates[0][0], f"{candidates[0][0].name}, because a single state is allowed"
        for sampler, _ in steps_of_pilot(candidates, "choosing a sampler"):
            runs[sampler.name] = run = _pilot(target, sampler, pilot_seed, pairs)
            found = _apart(run)
            if found is not None:
                apart = apart or f"in a pilot of {sampler.name} {found}"
                del runs[sampler.name]
        if not runs:
            used, _ = Tempered().prepared(target, tempered_seed, pairs)
            return used, f"tempered, because {apart}"
        return _cheapest(target, candidates, runs)


def _candidates(target: Target) -> tuple[tuple[Sampler, float], ...]:
    """Return the samplers to try, with what a sweep costs for each site; swaps and clusters where these can move."""
    if target.constraint is not None:
        return ((MetropolisMixed() if target.constraint.free.size else MetropolisSwap(), 1.0),)
    if target.candidates() is not None:
        return (*_CANDIDATES, _MIXED)
    try:
        edges = ferromagnet(target).low.size if isinstance(target, MRF) else None
    except ValueError:
        edges = None
    if edges is None:
        return _CANDIDATES
    return (*_CANDIDATES, (SwendsenWang(), _CLUSTER_COST + _NEIGHBOUR_COST * 2.0 * edges / target.d))


def _pilot(target: Target, sampler: Sampler, seed: np.random.SeedSequence, pairs: Any) -> SpinRun:
    """Return a short run from dispersed starts, the same for all samplers, so that they meet the same modes."""
    from bouncy._sample import sample

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sample(
            target, sampler, chains=_CHAINS, draws=_DRAWS, warmup=_WARMUP, seed=seed, pairs=pairs, lanes=1,
            threads=1, progress=False,
        )  # fmt: skip


def _apart(run: SpinRun) -> str | None:
    """Return in which way chains of a pilot are apart, or None."""
    from bouncy.results.diagnostics import is_disagreement

    report = run.diagnostics
    if report["flips"] == 0:
        return "nothing moved"
    if is_disagreement(run._disagreement()):
        return "chains disagreed about the means of sites"
    for name, value in report["rhat"].items():
        if isinstance(value, float) and name != "median_site" and value > _APART:
            return f"chains disagreed about {name.replace('_', ' ')} (R-hat {value:.3g})"
    if any("a part of the states" in text for text in report["warnings"]):
        return "chains kept to parts of the states"
    return None


def _cheapest(
    target: Target, candidates: Sequence[tuple[Sampler, float]], runs: dict[str, SpinRun]
) -> tuple[Sampler, str]:
    """Return the sampler with the smallest error for its work, of those whose chains agree, and why."""
    default = next(iter(runs))
    tied = _has_ties(target, runs[default].draws)
    symmetric = SwendsenWang().name in runs and not runs[SwendsenWang().name].mean_se.any()
    measure = _per_sample if symmetric else _squared_error
    need = {
        sampler.name: measure(runs[sampler.name]) * cost
        for sampler, cost in candidates
        if sampler.name in runs and not (tied and isinstance(sampler, Metropolis))
    }
    if not need:
        return Metropolis("random"), "metropolis-random, because in a pilot the chains of no other sampler agreed"
    best = min(need, key=lambda name: need[name] * (_WORTH_IT if name == default else 1.0))
    (sampler,) = (sampler for sampler, _ in candidates if sampler.name == best)
    smallest = max(min(need.values()), 1e-300)
    told = ", ".join(f"{name} {value / smallest:.2g}" for name, value in need.items())
    ties = "; metropolis was left out, because flips without a cost can trap it" if tied else ""
    what = "work for an effective sample" if symmetric else "squared error times work"
    return sampler, f"{best}, because its chains agreed in a pilot; {what}: {told}{ties}"


def _squared_error(run: SpinRun) -> float:
    """Return the mean squared error of the means."""
    return float(np.mean(run.mean_se**2))


def _per_sample(run: SpinRun) -> float:
    """Return the draws that an effective sample takes, of log p or |magnetisation|, whichever takes more."""
    sizes = [run.diagnostics["ess"][name] for name in ("log_prob", "abs_magnetisation")]
    return max((run.chains * run.draws_per_chain / size for size in sizes if isinstance(size, float)), default=1.0)


def _has_ties(target: Target, draws: NDArray[np.int8]) -> bool:
    """Say whether flips that cost nothing were met: a scan in turn may then never reach some states."""
    rng = np.random.default_rng(0)
    sites = np.sort(rng.choice(target.d, min(target.d, _SITES), replace=False))
    for s in draws[:_STATES, -1]:
        flipped = np.repeat(s[None], sites.size, axis=0)
        flipped[np.arange(sites.size), sites] *= -1
        if (np.abs(target.log_prob(s) - target.log_prob(flipped)) < _TIE).any():
            return True
    return False


NAMED = (
    Named(
        Auto(),
        "a short pilot chooses: tempered where its chains disagree, otherwise the one of BPS, Metropolis, Gibbs and, "
        "for ferromagnets, Swendsen-Wang with the smallest error for its work; swaps where there are constraints or "
        "correlated variables",
        "#777777",
    ),
)
