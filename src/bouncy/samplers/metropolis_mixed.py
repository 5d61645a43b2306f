"""Metropolis sampling by flips and swaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bouncy._validation import check_positive
from bouncy.clocks.pairs import Pairing, new_pairing
from bouncy.samplers._paired import PairedSampler
from bouncy.samplers.contract import Named
from bouncy.targets.contract import Target

# Share of the candidates of a target among its swaps, where candidates alone might not reach all allowed states.
_CANDIDATES = 0.5
# Default share of swaps where any two sites are tried.
_SWAPS = 0.5


@dataclass(frozen=True)
class MetropolisMixed(PairedSampler):
    """Attempts to flip a spin, or to exchange two, with probability min(1, e^-cost).

    For targets whose spins can stand in for each other, as correlated variables of a regression can: an exchange leads
    from one to the other without the detour by both or neither. In groups of `target.one_hot(groups)` spins are
    exchanged, and sites in no group flip.

    Parameters
    ----------
    partners : {"all", "edges"} or rows (i, j, weight), optional
        Who is paired with whom: any two sites, sites that interact, or candidates, unordered pairs that are tried in
        proportion to their weights. By default the target's own candidates (`VariableSelection` has those that are
        correlated), or any two sites where it has none.
    swaps : float, optional
        Probability that an attempt is a swap, strictly between 0 and 1. By default 0.5; with groups beside sites that
        are free, the share of the sites that are in groups; where the target has candidates, w/(1 + w), w the mean
        total weight of a site: most pairs do not differ and cost next to nothing, and without correlated variables
        there is little to exchange.

    Examples
    --------
    >>> import bouncy
    >>> bouncy.MetropolisMixed(swaps=0.25).name
    'metropolis-mixed'
    """

    swaps: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.swaps is not None and not 0.0 < check_positive("swaps", self.swaps) < 1.0:
            raise ValueError(f"swaps is {self.swaps}; expected a probability strictly between 0 and 1")

    @property
    def name(self) -> str:
        return "metropolis-mixed"

    def refusal(self, target: Target) -> str | None:
        return self.refusal_of_partners(target)

    def pairing(self, target: Target) -> Pairing:
        table, constraint = self.table(target), target.constraint
        has_table = table is not None and table.i.size > 0
        table = table if has_table else None
        if constraint is None:
            swaps = self.swaps or self._share_of_candidates(target)
            blocks = () if has_table else (np.arange(target.d),)
            shares = (1.0 - swaps, swaps if has_table else 0.0)
            return new_pairing(shares, single=np.arange(target.d), table=table, blocks=blocks)
        free = constraint.free
        swaps = (self.swaps or 1.0 - free.size / target.d) if free.size else 1.0
        listed = 0.0 if table is None else 1.0 if self.has_own_partners else _CANDIDATES
        groups = () if listed == 1.0 else constraint.groups
        return new_pairing((1.0 - swaps, listed * swaps), single=free, table=table, blocks=groups)

    def _share_of_candidates(self, target: Target) -> float:
        weights = target.candidates() if self.partners is None else None
        if weights is None:
            return _SWAPS
        total = float(weights.sum()) / target.d
        return total / (1.0 + total)


NAMED = (
    Named(
        MetropolisMixed(),
        "flips and swaps; for variables that can stand in for each other (correlated ones in `VariableSelection`), and "
        "for one-hot groups beside sites that are free",
        "#e377c2",
    ),
)
