"""What a word that nobody knows was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question, with a space before it, that offers the known words nearest to `word`, or nothing.

    Examples
    --------
    >>> did_you_mean("gibs", ["gibbs", "hmc"])
    " Did you mean 'gibbs'?"
    >>> did_you_mean("bps", ["bps-exponential", "bps-gaussian", "hmc"])
    " Did you mean 'bps-exponential' or 'bps-gaussian'?"
    >>> did_you_mean("nothing", ["gibbs", "hmc"])
    ''
    """
    names, typed = {name.lower(): name for name in known}, word.lower()
    near = [name for name in names if typed and typed in name] or difflib.get_close_matches(typed, names)
    return f" Did you mean {' or '.join(repr(names[name]) for name in near[:3])}?" if near else ""
