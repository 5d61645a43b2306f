"""Defer Ctrl-C to a safe point."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interrupts:
    """Notes a Ctrl-C while the block lasts; a second one is raised as always.

    Only where Python would raise `KeyboardInterrupt`: in the main thread, with the default signal handler.

    Attributes
    ----------
    seen : bool
        Whether there was one.
    """

    def __init__(self) -> None:
        self.seen = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.note()

    def note(self) -> None:
        """Note an interrupt, or raise the second one."""
        if self.seen:
            raise KeyboardInterrupt
        self.seen = True
