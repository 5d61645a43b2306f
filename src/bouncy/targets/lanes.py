"""The contract of targets whose chains can move together: the functions of a loop over lanes.

A lane is a chain. Lanes of a flock share a clock, so that the same site is tried in all of them at the same time, and
all arrays have them as their last axis: spins s[site, lane]. A target takes part by returning a `NamedTuple` from
`Target.lanes(width)` for which these functions are given with `implements`; what flips cost must be finite.
"""

from __future__ import annotations

from bouncy._dispatch import generic


@generic
def init_lanes(view, s):
    """Compute what the view keeps from the spins, (d, lanes)."""


@generic
def lane_costs(view, s, i, out):
    """Write log p(s) - log p(s with site i flipped) of each lane into `out`, (1, lanes).

    Where `out` is of single precision the result may be wrong by `cost_error` beside the rounding of what is written.
    """


@generic
def cost_error(view, i):
    """Return by how much a cost of site i may be wrong at most where it is computed in single precision."""


@generic
def fetch_steps(view, s):
    """Return in how many steps memory is asked for in advance: none where all of it is close to the processor."""


@generic
def fetch_lanes(view, s, i, step):
    """Ask for the memory that `lane_costs` will need for site i, where sites do not come in the order of memory.

    Steps count down to 0, some attempts apart: what was asked for at a step can be read at the next.
    """


@generic
def flip_lanes(view, s, i, change):
    """Update what the view keeps after site i has changed by `change`, (lanes,): by 0, 2 or -2 in each lane.

    What it costs may be put off until `settle_lanes`.
    """


@generic
def settle_lanes(view):
    """Do what `flip_lanes` put off; called at the end of a sweep, so that nothing of it is part of a state."""


@generic
def read_lanes(view, s, which, spins, cost, log_prob, means):
    """Write log p(s) of each lane into `log_prob`, (lanes,), and conditional means of some lanes into `means`.

    `which`, (n,), says of which, and `spins`, (n, d), are theirs; `means` is (n, d or a little more), and `cost`,
    (1, lanes), scratch.
    """


@generic
def trade_clusters(view, s, begin, partners, rng):
    """Exchange the spins of a cluster between lanes from `begin` on and their `partners` (see `targets/_clusters.py`).

    Clusters are made of sites that share a coupling, a factor or a term, so that log p of both lanes together stays
    what it is.
    """


@generic
def park_lane(view, n, k):
    """Leave lane k of ladder n alone: its spins are drawn whatever their probability, until another one is parked.

    Of a lane that is parked only log p is asked for; no other lane has spins of probability zero.
    """


@generic
def lanes_failed(view):
    """Return whether a function of the target failed, so that the loop must stop."""


@generic
def lane_log_probs(view, s, out):
    """Write log p(s) of each lane into `out`, (lanes,), which holds the sum of the flip costs of all sites."""
