"""Goals: when a run ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from bouncy._validation import check_count, check_positive

Function = Callable[[NDArray[Any]], Any]

# Draws at which a precision is judged for the first time.
_FIRST_LOOK = 64
# How much a run grows at least, and at most, from one look at its precision to the next.
_LEAST_GROWTH, _MOST_GROWTH = 1.1, 2.0
# A run that has to become this many times longer is recorded anew: what it has so far becomes its warm-up.
WORTH_A_RESTART = 4.0
# Sweeps for which chains may disagree, at least, and as a multiple of those before they first did.
_PATIENCE, _PATIENCE_GROWTH = 200_000, 16


@dataclass
class Goal:
    """Where a run is to stop: at whichever of these comes first.

    Attributes
    ----------
    draws : int or None
        Draws of each chain.
    seconds : float or None
        CPU seconds of each chain, all that it has spent since it began.
    until_se : float or None
        Bound of the standard errors.
    se_of : str or callable
        What has these standard errors: an estimate of the run, or a function of states.
    next_look : int
        Draws at which the standard errors are looked at next.
    disagree_since : int
        Sweeps after which chains were first seen to disagree; 0 as long as they agree.
    """

    draws: int | None = None
    seconds: float | None = None
    until_se: float | None = None
    se_of: str | Function = "mean"
    next_look: int = _FIRST_LOOK
    disagree_since: int = 0

    def judge(self, verdict: Verdict, draws: int, sweeps: int) -> str | None:
        """Return why to stop, given what was found after so many draws, or None; look again later.

        `sweeps` are those of a chain, warm-up included.
        """
        if verdict.reached:
            return "until_se"
        if verdict.disagree:
            self.disagree_since = self.disagree_since or sweeps
            if sweeps >= max(_PATIENCE, _PATIENCE_GROWTH * self.disagree_since):
                return "disagreement"
        else:
            self.disagree_since = 0
        growth = min(max(verdict.needed, _LEAST_GROWTH), _MOST_GROWTH)
        self.next_look = max(draws + 1, math.ceil(draws * growth))
        return None

    def look_again(self, draws: int) -> None:
        """Look at the standard errors after so many draws, of a recording that has begun anew."""
        self.next_look = max(draws, _FIRST_LOOK)


@dataclass(frozen=True)
class Verdict:
    """Result of a look at the standard errors.

    Attributes
    ----------
    reached : bool
        Whether they are below the bound, with a margin for their own noise.
    worst : float
        The largest of them; NaN where they are not known yet.
    needed : float
        How many times as long the run should become.
    disagree : bool
        Whether chains differ by more than chance allows.
    """

    reached: bool
    worst: float
    needed: float
    disagree: bool


def check_goal(draws: Any, seconds: Any, until_se: Any, se_of: Any, prefix: str = "") -> Goal:
    """Return the goal that arguments stand for, whose names in `bouncy.resume` have the prefix "total_"."""
    if not callable(se_of) and not isinstance(se_of, str):
        raise TypeError(f"se_of must be the name of an estimate or a function of states, got {se_of!r:.60}")
    if se_of != "mean" and until_se is None:
        raise ValueError("se_of says what has the standard errors of until_se=, which was not given")
    return Goal(
        None if draws is None else check_count(f"{prefix}draws", draws),
        None if seconds is None else check_positive(f"{prefix}seconds", seconds),
        None if until_se is None else check_positive("until_se", until_se),
        se_of,
    )
