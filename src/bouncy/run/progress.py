"""Progress of a run, and the bars that show it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol, TypeVar

from numba.core import event
from tqdm import tqdm  # that of tqdm.auto warns in notebooks without ipywidgets

# Most chains that have a bar each; more chains share one.
_MOST_BARS = 8
# Seconds from one report to the next.
_INTERVAL = 0.1
# Seconds of compiling after which a user is told about it.
_PATIENCE = 1.0
# Seconds of a run before a notebook shows its progress: shorter runs leave nothing in the output of their cell.
_SHORT = 0.5
_STEPS = 1000

Step = TypeVar("Step")
# Share of the work that is done, or None, and the form of a line as tqdm knows it.
Line = tuple[float | None, str]
# Whether somebody is to see what is done before a run begins.
_shown: ContextVar[bool] = ContextVar("shown", default=False)


@dataclass(frozen=True)
class ChainProgress:
    """Progress of one chain.

    Attributes
    ----------
    number : int
        Index of the chain.
    done : float or None
        Share of its work that is done; None where the amount of work is not known.
    draws : int
        Draws so far.
    flips_per_second : float
        Accepted flips (for continuous targets crossings) per CPU second.
    worst_se : float
        Its largest standard error of a conditional mean, without control variates; NaN where it is not known yet.
    """

    number: int
    done: float | None
    draws: int
    flips_per_second: float
    worst_se: float


@dataclass(frozen=True)
class Progress:
    """Progress of a run: the argument of a function that is passed as `progress=`.

    Attributes
    ----------
    sampler : str
        Name of the sampler.
    stage : {"warm-up", "sampling"}
        What is going on.
    done : float or None
        Share of all work that is done; None where the amount of work is not known.
    left : str
        What is left, in words: of time, of draws, or of precision.
    chains : tuple of ChainProgress
        The same of each chain.
    """

    sampler: str
    stage: str
    done: float | None
    left: str
    chains: tuple[ChainProgress, ...]


class Reporter:
    """Shows the progress of a run in bars, or calls a function with it, several times per second at most.

    Parameters
    ----------
    progress : bool, callable or None
        Whether to show bars, by default in terminals and notebooks, or a function to call.
    """

    def __init__(self, progress: bool | Callable[[Progress], object] | None) -> None:
        self._call = progress if callable(progress) else None
        self._bars = _Bars() if _is_shown(progress) else None
        self._last = 0.0

    @property
    def wanted(self) -> bool:
        """Whether progress is shown at all."""
        return self._call is not None or self._bars is not None

    @property
    def due(self) -> bool:
        """Whether it is time for a report."""
        return self.wanted and time.perf_counter() - self._last >= _INTERVAL

    def report(self, progress: Progress) -> None:
        """Show the progress of a run."""
        self._last = time.perf_counter()
        if self._call is not None:
            self._call(progress)
        elif self._bars is not None:
            self._bars.show(progress)

    def close(self) -> None:
        """Remove the bars."""
        if self._bars is not None:
            self._bars.close()


def _is_shown(progress: Any) -> bool:
    """Say whether somebody is to see progress, and not a function of theirs."""
    if progress is None:
        return _is_notebook() or sys.stderr.isatty()
    return bool(progress) and not callable(progress)


def _is_notebook() -> bool:
    """Say whether Jupyter shows what this process displays."""
    if "ipykernel" not in sys.modules:
        return False
    from IPython import get_ipython

    return hasattr(get_ipython(), "kernel")


@contextmanager
def announced(progress: Any) -> Iterator[None]:
    """Tell a user who is shown progress why chains do not move: something is compiled first, or a pilot is made."""
    token = _shown.set(_is_shown(progress))
    try:
        if _shown.get():
            with event.install_listener("numba:compile", _CompilingNotice()):
                yield
        else:
            yield
    finally:
        _shown.reset(token)


def steps_of_pilot(steps: Sequence[Step], what: str) -> Iterator[Step]:
    """Yield the steps of a pilot, and show which it is where progress is shown."""
    if not _shown.get():
        yield from steps
        return
    screen, begun = _new_screen(), time.perf_counter()
    try:
        for k, step in enumerate(steps):
            spent = tqdm.format_interval(time.perf_counter() - begun)
            screen.show([(None, f"{what}, {k} of {len(steps)} steps at most, {spent}")])
            yield step
    finally:
        screen.close()


class _Screen(Protocol):
    """Lines that are replaced in place."""

    def show(self, lines: Sequence[Line]) -> None:
        """Show these lines instead of those that were shown."""

    def note(self, text: str) -> None:
        """Show a line once."""

    def close(self) -> None:
        """Remove the lines."""


def _new_screen() -> _Screen:
    return _Notebook() if _is_notebook() else _Terminal()


class _Terminal:
    """Lines at the bottom of a terminal, on standard error."""

    def __init__(self) -> None:
        self._bars: list[tqdm] = []

    def show(self, lines: Sequence[Line]) -> None:
        if len(lines) != len(self._bars):
            self.close()
            self._bars = [_new_bar(k) for k in range(len(lines))]
        for bar, (done, form) in zip(self._bars, lines, strict=True):
            bar.n, bar.bar_format = round(_STEPS * (done or 0.0)), form
            bar.refresh()

    def note(self, text: str) -> None:
        tqdm.write(f"{text}\n", file=sys.stderr, end="")  # in one piece: Ctrl-C may come right after it

    def close(self) -> None:
        for bar in reversed(self._bars):
            bar.close()
        self._bars = []


def _new_bar(position: int) -> tqdm:
    # The first drawing is delayed, as it would be empty.
    return tqdm(total=_STEPS, position=position, leave=False, dynamic_ncols=True, delay=1e-9)


class _Notebook:
    """Lines in the output of a cell, which is updated in place and empty in the end."""

    def __init__(self) -> None:
        self._begun = time.perf_counter()
        self._handle: Any = None

    def show(self, lines: Sequence[Line]) -> None:
        if time.perf_counter() - self._begun >= _SHORT:
            texts = [tqdm.format_meter(_STEPS * (done or 0.0), _STEPS, 0.0, bar_format=form) for done, form in lines]
            self._display("\n".join(texts))

    def note(self, text: str) -> None:
        self._display(text)

    def close(self) -> None:
        if self._handle is not None:
            self._display("")

    def _display(self, text: str) -> None:
        from IPython.display import display

        content = {"text/plain": text, "text/html": text and f"<pre>{escape(text)}</pre>"}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


class _CompilingNotice(event.Listener):
    """Writes a line, once, when something takes long to compile."""

    def __init__(self) -> None:
        self._depth, self._told = 0, False
        self._timer: threading.Timer | None = None
        self._screen = _new_screen()

    def on_start(self, event: Any) -> None:
        self._depth += 1
        if self._depth == 1 and not self._told:
            self._timer = threading.Timer(_PATIENCE, self._tell)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._screen.close()

    def _tell(self) -> None:
        if self._depth:
            self._told = True
            self._screen.note("bouncy: compiling for a kind of model that is new here; this happens once")


class _Bars:
    """A line for the run, and a bar for each chain, or one for all of many."""

    def __init__(self) -> None:
        self._screen = _new_screen()
        self._stage, self._begun = "", 0.0

    def show(self, progress: Progress) -> None:
        if progress.stage != self._stage:
            self._stage, self._begun = progress.stage, time.perf_counter()
        self._screen.show([(progress.done, self._headline(progress)), *_chain_lines(progress)])

    def _headline(self, progress: Progress) -> str:
        """Return stage, time spent, time left, and what is left to reach."""
        spent = time.perf_counter() - self._begun
        parts = [f"{progress.sampler} {progress.stage} {tqdm.format_interval(spent)}"]
        if progress.done and spent > 1.0:
            parts.append(f"about {tqdm.format_interval(spent * (1.0 / progress.done - 1.0))} left")
        return ", ".join([*parts, progress.left] if progress.left else parts)

    def close(self) -> None:
        self._screen.close()


def _chain_lines(progress: Progress) -> list[Line]:
    """Return the share done and the form of the bar of each chain, or of all of them together."""
    chains = progress.chains
    if len(chains) > _MOST_BARS:
        return [(progress.done, _form(f"{len(chains)} chains", progress.done, chains))]
    return [(chain.done, _form(f"chain {chain.number}", chain.done, [chain])) for chain in chains]


def _form(label: str, done: float | None, chains: Sequence[ChainProgress]) -> str:
    bar = "" if done is None else "{percentage:3.0f}%|{bar:20}| "
    return f"  {label} {bar}{_words(chains)}"


def _words(chains: Sequence[ChainProgress]) -> str:
    """Return draws, flips per second and the worst error of some chains, in words."""
    draws = min(chain.draws for chain in chains)
    flips = sum(chain.flips_per_second for chain in chains)
    errors = [chain.worst_se for chain in chains if chain.worst_se == chain.worst_se]
    parts = [f"{draws:,} draws"] if draws else []
    parts += [f"{flips / 1e6:.3g} M flips/s"] if flips else []
    parts += [f"se {max(errors):.2g}"] if errors else []
    return ", ".join(parts)
