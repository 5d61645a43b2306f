"""What a sampler of continuous targets is inside: a motion, which one compiled loop takes from sweep to sweep."""

from __future__ import annotations

from bouncy._compile import kernel
from bouncy._dispatch import generic


@generic
def settle(motion, view):
    """Make everything that a motion keeps agree with its place y, its cells and its velocity."""


@generic
def sweep(motion, view, recorder, sweep_time):
    """Move for a time, and have the recorder account for it.

    Counts go into `recorder.open_events`. When it is done, `motion.y` and `motion.row`, (d,), say where it is.
    """


@kernel
def prepare(motion, view):
    """Make a motion agree with its place, before it moves or after the target has changed."""
    settle(motion, view)


@kernel
def advance(motion, view, recorder, sweep_time, n_sweeps):
    """Run a chain for n sweeps. Everything but the view and the numbers is changed in place."""
    for _ in range(n_sweeps):
        sweep(motion, view, recorder, sweep_time)
