"""Tempered chains: ladders of temperatures between an easy distribution and the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import config

from bouncy._samplable import Samplable
from bouncy._validation import check_count, check_real_array
from bouncy.clocks.contract import Clock
from bouncy.samplers.contract import Named, SpinSampler
from bouncy.samplers.metropolis import Metropolis
from bouncy.targets.contract import Target
from bouncy.workers.contract import Plan, Worker

_BASE = Metropolis()
# Scans from one exchange of clusters to the next, where nobody says so.
_EXCHANGE_EVERY = 4
# Largest of all numbers that can be asked for.
_MOST = 1 << 20
# Shortest default warm-up, in scans.
_WARMUP = 500


@dataclass(frozen=True)
class Tempered(SpinSampler):
    """Parallel tempering with non-reversible swaps: for targets whose modes are far apart.

    A chain is a whole ladder. Rung k samples q(s)^(1 - b_k) p(s)^b_k, with 0 = b_0 < ... < b_n = 1 and q a product of
    independent spins; neighbours trade places, so that the chain at b = 1 comes from one mode of p to another by way of
    q, where nothing is in the way. The run has log Z (`run.log_z`) as well.

    Parameters
    ----------
    base : str or SpinSampler
        What moves the spins between swaps: a sampler whose chains could share a clock, so not HMC. By default sites
        in turn: at b = 0 all spins are drawn anew, so that ties, which can trap a Metropolis chain, do not trap a
        ladder. On targets restricted by `fixed_sum` or `one_hot` this default is replaced by swaps.
    rungs : int, optional
        Number of temperatures; by default about twice the barrier.
    sweeps_per_swap : int, optional
        Sweeps of the base from one swap to the next.
    reference : "uniform", "fitted" or array_like, optional
        q: all states alike, or independent spins with the means that a pilot found, if they lower the barrier, or
        independent spins in the fields g, (d,), that are given: log q(s) = -s.g. By default fitted for
        `VariableSelection`, whose posterior has few variables of many, and otherwise uniform. That of a restricted
        target is uniform on the allowed states.
    ladder : array_like, optional
        The values b, from 0 to 1.
    ladders : int, optional
        Ladders of a chain, which share a clock. Draws are those of one of them, means and log Z those of all. By
        default two where clusters are exchanged, otherwise one, and more on an `MRF` as long as they take little time.
    clusters : sequence of int or False, optional
        Rungs at which pairs of ladders exchange clusters (Houdayer): spins of a connected component of sites at which
        both differ. For an `MRF` with few couplings per site, a `FactorGraph` and a `Polynomial`; by default the colder
        half of the rungs, where a pilot finds that clusters are not just all sites at which two states differ.
    scans_per_exchange : int, optional
        Scans from one exchange of clusters to the next. By default a pilot counts what exchanges take, and lets them
        take a fifth of the time of flips, or 3 % where clusters are most of what differs.

    Notes
    -----
    What is not given is found by a pilot before the run, whose draws are not used, and is a function of the seed alone;
    `run.sampler` has all of it. The pilot makes some hundred to some thousand scans of one ladder, which `seconds` of
    `bouncy.sample` do not count. Draws, warm-up and thinning count scans: `sweeps_per_swap` sweeps of all rungs, and
    one attempt to swap.

    References
    ----------
    Syed, Bouchard-Cote, Deligiannidis, Doucet, "Non-reversible parallel tempering", JRSS B 84 (2022).

    Examples
    --------
    >>> import bouncy
    >>> bouncy.Tempered("bps-gaussian", ladder=[0, 0.3, 1]).rungs
    3
    """

    base: str | SpinSampler = "metropolis"
    rungs: int | None = None
    sweeps_per_swap: int | None = None
    reference: Any = None
    ladder: Any = None
    ladders: int | None = None
    clusters: Any = None
    scans_per_exchange: int | None = None

    def __post_init__(self) -> None:
        if self.base != _BASE.name:  # which is known before all samplers are
            _ = self.base_sampler
        for name in ("rungs", "sweeps_per_swap", "ladders", "scans_per_exchange"):
            value = getattr(self, name)
            if value is not None and check_count(name, value) > _MOST:
                raise ValueError(f"{name} is {value:.3g}; expected {_MOST:,} at most")
        if self.rungs == 1:
            raise ValueError("rungs is 1; expected 2 at least, the reference and the target")
        if self.ladder is not None:
            b = check_real_array("ladder", self.ladder)
            if b.ndim != 1 or b.size < 2 or b[0] != 0.0 or b[-1] != 1.0 or not (np.diff(b) > 0.0).all():
                raise ValueError(f"ladder must rise from 0 to 1, got {self.ladder!r:.60}")
            object.__setattr__(self, "ladder", tuple(b.tolist()))
            if self.rungs not in (None, b.size):
                raise ValueError(f"rungs is {self.rungs}, but ladder has {b.size} values; leave one of them out")
            object.__setattr__(self, "rungs", b.size)
        if isinstance(self.reference, str):
            if self.reference not in ("uniform", "fitted"):
                raise ValueError(f"reference is {self.reference!r}; expected 'uniform', 'fitted' or fields, (d,)")
        elif self.reference is not None:
            fields = check_real_array("reference", self.reference)
            if fields.ndim != 1:
                raise ValueError(f"reference has shape {fields.shape}; expected fields of the sites, (d,)")
            object.__setattr__(self, "reference", tuple(fields.tolist()))
        if self.clusters is not None:
            object.__setattr__(self, "clusters", self._read_clusters())
        if self.clusters:
            object.__setattr__(self, "ladders", self.ladders or 2)
            object.__setattr__(self, "scans_per_exchange", self.scans_per_exchange or _EXCHANGE_EVERY)
            if self.ladders is not None and self.ladders % 2:
                raise ValueError(f"ladders is {self.ladders}; expected an even number: pairs of them exchange clusters")

    def _read_clusters(self) -> tuple[int, ...]:
        if self.clusters is False:
            return ()
        if isinstance(self.clusters, str | bytes) or not isinstance(self.clusters, Sequence | np.ndarray):
            raise ValueError(f"clusters is {self.clusters!r:.60}; expected False, or rungs as in [8, 9, 10]")
        found = tuple(check_count("a rung of clusters", k) for k in self.clusters)
        most = np.inf if self.rungs is None else self.rungs - 1
        if found and (max(found) > most or len({*found}) < len(found)):
            raise ValueError(f"clusters is {self.clusters!r:.60}; expected different rungs, 1 to {most:g}")
        return found

    @property
    def name(self) -> str:
        return "tempered"

    @property
    def unit(self) -> str:
        return "scans"

    @property
    def base_sampler(self) -> SpinSampler:
        """The sampler that moves the spins between swaps."""
        from bouncy.samplers import registry

        found: Any = self.base
        if found == _BASE.name:
            return _BASE
        if isinstance(found, str):
            known = {entry.name: entry.sampler for entry in registry() if isinstance(entry.sampler, SpinSampler)}
            if found not in known:
                usable = ", ".join(sorted(name for name, sampler in known.items() if _can_be_shared(sampler)))
                raise ValueError(f"base is {found!r}; expected one of: {usable}")
            found = known[found]
        if not isinstance(found, SpinSampler):
            raise TypeError(f"base must be a name or a sampler of spins such as bouncy.BPS(), got {self.base!r:.60}")
        if not _can_be_shared(found):
            raise ValueError(f"base is {found.name}, whose clock cannot drive a ladder; use 'bps-gaussian' or 'gibbs'")
        return found

    def base_on(self, target: Target) -> str | SpinSampler:
        """Return what moves the spins of a target: swaps where it is restricted and nothing else was asked for."""
        if target.constraint is None or self.base != _BASE.name:
            return self.base
        return target.default_sampler

    def refusal(self, target: Target) -> str | None:
        return replace(self, base=self.base_on(target)).base_sampler.refusal(target)

    def can_trade_clusters(self, target: Target) -> bool:
        """Say whether clusters of a target are known: which sites share a coupling, a factor or a term."""
        from bouncy.targets.field_lanes import DenseLanes  # which few runs need

        known = not isinstance(target.lanes(1), DenseLanes) and target.edges() is not None
        return self.clock.family != "pairs" and known

    @property
    def fields(self) -> tuple[float, ...] | None:
        """Fields g of the reference; None where it is uniform."""
        return self.reference if isinstance(self.reference, tuple) else None

    @property
    def clock(self) -> Clock:
        return self.base_sampler.clock

    @property
    def refreshment(self) -> float:
        return self.base_sampler.refreshment

    def refusal_of_lanes(self, target: Samplable[Any]) -> str | None:
        return "a tempered chain is a ladder with a clock of its own, whose rungs are lanes already"

    def start(self, target: Target, seed: np.random.SeedSequence) -> tuple[Any, Any]:
        raise TypeError("a tempered chain is a whole ladder and cannot be a block of a scheme; use its base alone")

    def sweep_time(self, d: int) -> float:
        """Return the length of a scan."""
        return self.base_sampler.sweep_time(d) * (self.sweeps_per_swap or 1)

    def default_warmup(self, target: Samplable[Any], draws: int) -> int:
        return max(_WARMUP, draws // 4)

    def prepared(self, target: Any, seed: np.random.SeedSequence, pairs: str = "none") -> tuple[Tempered, str]:
        """Return the sampler with all that was left open, found by a pilot."""
        self._check_target(target)
        asked = replace(self, base=self.base_on(target))
        asked = asked if asked.reference is not None else replace(asked, reference=target.tempered_from)
        if asked.clusters and not asked.can_trade_clusters(target):
            raise ValueError(
                f"clusters are those of sparse couplings, factors or terms, moved by flips; {target!r:.80} with base "
                f"{asked.base_sampler.name} has none: leave clusters out"
            )
        if asked.ladders not in (None, 1) and asked.clock.family == "pairs":
            raise ValueError(
                f"ladders is {asked.ladders}; a chain that is moved by {asked.base_sampler.name} has one ladder: leave "
                "ladders out, and ask for more chains"
            )
        if asked.ladder is not None and asked.sweeps_per_swap is not None and asked.reference != "fitted":
            return replace(asked, clusters=asked.clusters or (), ladders=asked.ladders or 1), ""
        from bouncy.samplers._pilot import tuned

        return tuned(asked, target, seed, pairs), ""

    def _check_target(self, target: Any) -> None:
        if not isinstance(target, Target):
            raise ValueError(
                f"{type(target).__name__} is no target of spins alone, which a tempered chain is for; sample it with "
                "another sampler"
            )
        if target.constraint is not None and self.reference not in (None, "uniform"):
            raise ValueError("the reference of a restricted target is uniform on its allowed states; leave it out")
        if self.fields is not None and len(self.fields) != target.d:
            raise ValueError(f"reference has {len(self.fields)} fields; expected {target.d}, one for each site")
        if config.DISABLE_JIT:  # type: ignore[attr-defined]
            raise RuntimeError("tempered chains need compiled code, but NUMBA_DISABLE_JIT is set")

    def workers(
        self, target: Any, plan: Plan, seeds: Sequence[np.random.SeedSequence], starts: Sequence[Any]
    ) -> list[Worker]:
        from bouncy.workers.ladder import LadderWorker  # which few runs need

        each = enumerate(zip(seeds, starts, strict=True))
        return [LadderWorker(target, self, plan, seed, start, k) for k, (seed, start) in each]


def _can_be_shared(sampler: Any) -> bool:
    return getattr(sampler, "lane_toll", None) is not None


NAMED = (
    Named(
        Tempered(),
        "for targets whose modes are far apart: a ladder of temperatures, with log Z; costs as many chains as it has "
        "rungs",
        "#000000",
    ),
)
