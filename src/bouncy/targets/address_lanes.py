"""Lanes of targets that are called by address: each lane has a view, and so a cache, of its own.

There is nothing that lanes share but the clock, so that a lane costs what a chain does. A ladder needs no more. Walls
are possible: a lane that is parked is drawn without regard to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy._dispatch import check_bounds, implements, named_state, part
from bouncy._lane_bits import WORD
from bouncy._native import FINE, Owner
from bouncy.targets._clusters import Joints, new_joints, trade_spins
from bouncy.targets.by_address import STOPPED, Linked
from bouncy.targets.conditioning import as_linked
from bouncy.targets.contract import Target, TargetError, conditional_means, flip_cost, init, log_prob, on_flip
from bouncy.targets.lanes import (
    cost_error,
    fetch_lanes,
    fetch_steps,
    flip_lanes,
    init_lanes,
    lane_costs,
    lanes_failed,
    park_lane,
    read_lanes,
    settle_lanes,
    trade_clusters,
)

_NONE = -1


@part(
    "spins", "parked", "caches",
    bounds={"spins": None, "parked": lambda view: (0, view.part.size - 1), "caches": None},
)  # fmt: skip
class LinkedLanes(NamedTuple):
    """The functions of a target, and the parts of all lanes that they work on."""

    flip_cost: int  # addresses, as those of `Linked`
    log_prob: int
    init: int
    on_flip: int
    conditional_means: int
    judges: int
    part: NDArray[np.int64]  # (lanes,) the address of the part of each lane
    spins: NDArray[np.int8]  # (lanes, d) as functions see them
    parked: NDArray[np.int64]  # (ladders,) the lanes that are drawn without regard to walls
    trouble: NDArray[np.int64]  # (1,) the lane whose target failed, or none
    fault: NDArray[np.int64]  # (2,) as that of `Linked`; its base owns the memory at the addresses
    where: NDArray[np.int8]  # (d,)
    walk: NDArray[np.int8]  # (d,) scratch
    joints: Joints

    @property
    def views(self) -> list[Linked]:
        """The view of each lane, which owns its memory."""
        owner: Any = self.fault.base
        views: list[Linked] = owner.views
        return views

    @property
    def caches(self) -> list[NDArray[Any]]:
        """The arrays of all lanes that change while they move."""
        return [array for view in self.views for array in named_state("", view).values()]

    def check(self, state: Mapping[str, NDArray[Any]], name: str) -> None:
        """Raise `ValueError` where caches of a state, by its names, cannot be those of the present spins.

        Those of lanes that are parked are computed anew before they are used.
        """
        n = 0
        for k, view in enumerate(self.views):
            names = list(named_state("view", view))
            found = {own: state[f"{name}.caches.{n + j}"] for j, own in enumerate(names)}
            n += len(names)
            if k not in state[f"{name}.parked"]:
                check_bounds(found, "view", view)

    def failure(self) -> TargetError | None:
        """Return the error of the function that failed, or None."""
        for view in self.views:  # one inside another reports there
            if view.fault[0] != FINE:
                return view.failure()
        if self.trouble[0] == _NONE:
            return None
        if self.fault[0] == FINE:
            return TargetError(
                "log p of a state that a tempered chain begins from is not known: costs of +inf are walls, and do not "
                "tell what is behind them; give log_prob too",
                "log_prob",
                None,
                self.where.copy(),
            )
        owner = self.views[int(self.trouble[0])].memory
        return owner.explain(int(self.fault[0]), int(self.fault[1]), self.where.copy())

    def stop(self) -> None:
        """Stop a loop that runs in another thread; plain Python functions are not called any more."""
        for view in self.views:
            view.stop()
        self.fault[0] = STOPPED
        self.trouble[0] = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the views: addresses are valid in one process only."""
        return _rebuilt, (self.views, self.spins, self.parked, self.joints)


def address_lanes(target: Target, width: int, ladders: int = 1) -> LinkedLanes:
    """Return a view of some lanes of any target: those of some ladders, the first of each of which is parked."""
    views = [as_linked(target.view(), target.d) for _ in range(width)]
    joints = new_joints(target.edges() if ladders > 1 else None)
    spins, parked = np.ones((width, target.d), np.int8), np.arange(ladders) * (width // ladders)
    return _rebuilt(views, spins, parked, joints)


def _rebuilt(views: list[Linked], spins: NDArray[np.int8], parked: NDArray[np.int64], joints: Joints) -> LinkedLanes:
    first, d = views[0], views[0].where.size
    return LinkedLanes(
        **{name: getattr(first, name) for name in ("flip_cost", "log_prob", "init", "on_flip", "conditional_means")},
        judges=first.judges,
        part=np.array([view.part for view in views]),
        spins=spins.copy(),
        parked=parked.copy(),
        trouble=np.full(1, _NONE),
        fault=np.asarray(Owner(np.zeros(2, np.int64), views=views)),
        where=np.zeros(d, np.int8),
        walk=np.zeros(d, np.int8),
        joints=joints,
    )


@helper
def lane_of(view, k):
    """Return the view of one lane."""
    return Linked(
        view.flip_cost, view.log_prob, view.init, view.on_flip, view.conditional_means, view.part[k], view.judges,
        view.fault, view.where, view.walk,
    )  # fmt: skip


@helper
def report_trouble(view, k, value):
    """Remember a lane whose function returned what it must not, or reported a failure."""
    if (view.fault[0] != FINE or value != value) and view.trouble[0] == _NONE:
        view.trouble[0] = k


@implements(lanes_failed, LinkedLanes)
def _failed(view):
    return view.trouble[0] != _NONE


@implements(park_lane, LinkedLanes)
def _park(view, n, k):
    view.parked[n] = k


@helper
def is_parked(view, k):
    """Say whether a lane is drawn without regard to walls."""
    parked = view.parked
    found = k == parked[0] or k == parked[-1]
    for n in range(1, parked.size - 1):  # none where ladders are one or two, as nearly always
        found |= k == parked[n]
    return found


@implements(init_lanes, LinkedLanes)
def _init(view, s):
    for k in range(s.shape[1]):
        for i in range(s.shape[0]):
            view.spins[k, i] = s[i, k]
        if not lanes_failed(view):
            init(lane_of(view, k), view.spins[k])
            report_trouble(view, k, 0.0)


@implements(lane_costs, LinkedLanes)
def _costs(view, s, i, out):
    for k in range(out.shape[1]):
        if is_parked(view, k) or lanes_failed(view):
            out[0, k] = 0.0
        else:
            cost = flip_cost(lane_of(view, k), view.spins[k], i)
            out[0, k] = cost
            if not cost > -np.inf:
                report_trouble(view, k, np.nan)


@implements(cost_error, LinkedLanes)
def _exact(view, i):
    return 0.0  # but for the rounding of what functions return


@implements(fetch_steps, LinkedLanes)
def _no_steps(view, s):
    return 0


@implements(fetch_lanes, LinkedLanes)
def _fetch(view, s, i, step):
    pass


@implements(flip_lanes, LinkedLanes)
def _flip(view, s, i, change):
    for k in range(change.size):
        if change[k] != 0.0:
            view.spins[k, i] = s[i, k]
            if not is_parked(view, k) and not lanes_failed(view):
                on_flip(lane_of(view, k), view.spins[k], i)
                report_trouble(view, k, 0.0)


@implements(settle_lanes, LinkedLanes)
def _settle(view):
    pass


@implements(read_lanes, LinkedLanes)
def _read(view, s, which, spins, cost, values, means):
    for n in range(values.size):
        if lanes_failed(view):
            return
        lane, own = lane_of(view, n), view.spins[n]
        if is_parked(view, n):
            init(lane, own)
        values[n] = log_prob(lane, own)
        if values[n] != values[n]:
            for i in range(own.size):
                view.where[i] = own[i]
        report_trouble(view, n, values[n])
    for n in range(which.size):
        k = which[n]
        conditional_means(lane_of(view, k), view.spins[k], means[n])
        report_trouble(view, k, 0.0)


@implements(trade_clusters, LinkedLanes)
def _trade(view, s, begin, partners, rng):
    if lanes_failed(view):
        return
    trade_spins(view.joints, s, begin, partners, rng)
    rungs = partners.lane.size
    for k in range(rungs):
        if partners.traded[k // WORD] >> np.uint64(k % WORD) & np.uint64(1):
            _begin_anew(view, s, begin + k)
            _begin_anew(view, s, begin + rungs + partners.lane[k])


@helper
def _begin_anew(view, s, k):
    """Compute what a lane keeps after several of its spins have changed."""
    for i in range(s.shape[0]):
        view.spins[k, i] = s[i, k]
    init(lane_of(view, k), view.spins[k])
    report_trouble(view, k, 0.0)
