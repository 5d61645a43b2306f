"""Defer Ctrl-C to a safe point."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any


class Interrupts:
    """Notes a Ctrl-C while the block lasts, and raises a second one at once.

    Only where Python would raise `KeyboardInterrupt`: in the main thread, with the default signal handler.

    Parameters
    ----------
    at_once : bool
        Raise the first one, too, and again where the block ends: numba compiles with callbacks from which no exception
        gets out, and which would print it.

    Attributes
    ----------
    seen : bool
        Whether there was one.
    """

    def __init__(self, at_once: bool = False) -> None:
        self.seen, self._at_once = False, at_once
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            self._before = signal.signal(signal.SIGINT, self._handle)
            self._hook, sys.unraisablehook = sys.unraisablehook, self._pass_on
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            if not (self.seen and self._at_once):
                sys.unraisablehook = self._hook
        if self.seen and self._at_once:
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.note()

    def _pass_on(self, event: Any) -> None:
        """Report an exception that cannot be raised, unless it is the one that will be raised later.

        Nor is it if an object of the compiler, which the interrupt left half built, complains when it is released.
        """
        half_built = self.seen and str(getattr(event.object, "__module__", "")).startswith("llvmlite")
        if not (self._at_once and (half_built or issubclass(event.exc_type, KeyboardInterrupt))):
            self._hook(event)

    def note(self) -> None:
        """Note an interrupt, or raise the second one."""
        seen, self.seen = self.seen, True
        if seen or self._at_once:
            raise KeyboardInterrupt
