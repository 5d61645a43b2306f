"""Metropolis sampling by swaps: two spins that differ trade places, and their sum stays what it is."""

from __future__ import annotations

from dataclasses import dataclass

from bouncy.clocks.pairs import Pairing, new_pairing
from bouncy.samplers._paired import PairedSampler
from bouncy.samplers.contract import Named
from bouncy.targets.contract import Target


@dataclass(frozen=True)
class MetropolisSwap(PairedSampler):
    """Attempts to exchange two spins at a time, with probability min(1, e^-cost).

    For targets in which the number of spins +1 is fixed, in all or in groups: `target.fixed_sum(k)` and
    `target.one_hot(groups)`. A pair is drawn whatever its spins are; where they do not differ nothing happens.

    Parameters
    ----------
    partners : {"all", "edges"} or rows (i, j, weight), optional
        Who is paired with whom: any two sites of a group, sites that interact, or candidates, unordered pairs that are
        tried in proportion to their weights. Partners that cannot reach all allowed states are refused.

    Examples
    --------
    >>> import bouncy
    >>> gas = bouncy.MRF.ising((4, 4), coupling=0.3).fixed_sum(8)
    >>> run = bouncy.sample(gas, bouncy.MetropolisSwap(partners="edges"), draws=100, seed=0)
    >>> bool((run.draws.sum(axis=2) == 0).all())
    True
    """

    partners: object = "all"

    @property
    def name(self) -> str:
        return "metropolis-swap"

    def refusal(self, target: Target) -> str | None:
        if target.constraint is None:
            return (
                "metropolis-swap keeps the number of spins +1, which is not fixed here; restrict the target by "
                "fixed_sum(k) or one_hot(groups), or use 'metropolis-mixed'"
            )
        if target.constraint.free.size:
            return "metropolis-swap never moves the sites that are in no group; use 'metropolis-mixed'"
        return self.refusal_of_partners(target)

    def pairing(self, target: Target) -> Pairing:
        assert target.constraint is not None
        table = self.table(target)
        if table is None or not table.i.size:  # without any pair there is a single state
            return new_pairing((0.0, 0.0), blocks=target.constraint.groups)
        return new_pairing((0.0, 1.0), table=table)


NAMED = (
    Named(
        MetropolisSwap(),
        "two spins trade places; the default where the number of spins +1 is fixed, by `target.fixed_sum(k)` or "
        "`target.one_hot(groups)`",
        "#8c564b",
    ),
)
