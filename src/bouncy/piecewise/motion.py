"""What a sampler of continuous targets is inside: a motion, which one compiled loop takes from sweep to sweep."""

from __future__ import annotations

from bouncy._compile import kernel
from bouncy._dispatch import generic
from bouncy.piecewise.recorder import fill_bins


@generic
def settle(motion, view, evaluations):
    """Make everything that a motion keeps agree with its place y, its cells and its velocity.

    `evaluations` counts calls of the functions of a density, here and in the recorder; other targets have none.
    """


@generic
def sweep(motion, view, recorder, sweep_time):
    """Move for a time, have the recorder account for it, and return whether the target did not fail.

    Counts go into `recorder.open_events`. When it is done, `motion.y` and `motion.row`, (d,), say where it is.
    """


@kernel
def prepare(motion, view, evaluations):
    """Make a motion agree with its place, before it moves or after the target has changed."""
    settle(motion, view, evaluations)


@kernel
def advance(motion, view, recorder, sweep_time, n_sweeps):
    """Run a chain for n sweeps, and return how many are left because its target failed.

    Everything but the view and the numbers is changed in place.
    """
    left = n_sweeps
    while left > 0:  # a call in the condition would be compiled twice
        if not sweep(motion, view, recorder, sweep_time):
            break
        left -= 1
    fill_bins(recorder, sweep_time)
    return left
