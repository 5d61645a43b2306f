"""Samplers: the combinations of clock and toll that a user asks for by name, and the registry of all samplers."""

from __future__ import annotations

from typing import Any

from bouncy._registry import modules
from bouncy.samplers._clusters import ClusterSampler
from bouncy.samplers.contract import Named, Sampler, SpinSampler
from bouncy.targets.contract import Target

# Kinds of samplers of spins: of all targets, and of ferromagnets.
OF_SPINS = (SpinSampler, ClusterSampler)
Kind = type[Sampler] | tuple[type[Sampler], ...]


def registry(kind: Kind = Sampler) -> list[Named]:
    """Return the entries of all samplers of a kind that have a name."""
    found = [*modules(__name__), *modules("bouncy.piecewise.samplers")]
    entries = [entry for module in found for entry in getattr(module, "NAMED", ())]
    return [entry for entry in entries if isinstance(entry.sampler, kind)]


def names(kind: Kind = SpinSampler) -> list[str]:
    """Return the names of all samplers of a kind, sorted."""
    return sorted(entry.name for entry in registry(kind))


def as_sampler(target: Any, asked: str | Sampler | None = None) -> Any:
    """Return the sampler for a target: its default, the one with a name, or the given one if it accepts the target."""
    target = target.sampled
    known = {entry.name: entry.sampler for entry in registry() if entry.sampler.accepts(target)}
    if asked is None:
        return known[target.default_sampler]
    if isinstance(asked, Sampler) and asked.accepts(target):
        return asked
    if isinstance(asked, str) and asked in known:
        return known[asked]
    _raise_refusal(target, asked, sorted(known))
    listed, kind = ", ".join(sorted(known)), type(target).__name__
    if isinstance(asked, ClusterSampler) or asked in names(ClusterSampler):
        raise ValueError(
            f"sampler is {asked!r}, which flips clusters of a bouncy.MRF; {kind} can be sampled by: {listed}"
        )
    if isinstance(asked, str):
        which = "known names" if isinstance(target, Target) else f"{kind} is continuous and can be sampled by"
        raise ValueError(f"sampler is {asked!r}; {which}: {listed}")
    if isinstance(target, Target):
        raise TypeError(f"sampler must be a name or a sampler such as bouncy.BPS('gaussian'), got {asked!r}")
    raise TypeError(
        f"{kind} is continuous: sampler must be one of {listed}, or a sampler such as "
        f"bouncy.piecewise.BPS(refreshment=0.5), got {asked!r}"
    )


def _raise_refusal(target: Any, asked: Any, usable: list[str]) -> None:
    """Raise if a sampler of spins was asked for that cannot move on a target of spins, with its reason."""
    if isinstance(asked, str):
        known = (entry for entry in registry() if isinstance(entry.sampler, SpinSampler))
        asked = next((entry.sampler for entry in known if entry.name == asked), asked)
    if isinstance(target, Target) and isinstance(asked, SpinSampler):
        raise ValueError(f"{asked.refusal(target)}. {target!r} can be sampled by: {', '.join(usable)}")


def table(kind: Kind = OF_SPINS) -> list[str]:
    """Return the rows of the Markdown table "Which sampler"; samplers with the same summary share a row."""
    rows: dict[str, list[str]] = {}
    for entry in registry(kind):
        rows.setdefault(entry.summary, []).append(f'`"{entry.name}"`')
    return [f"| {', '.join(names)} | {summary} |" for summary, names in rows.items()]
