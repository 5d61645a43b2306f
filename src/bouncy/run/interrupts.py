"""Ctrl-C as a wish that is granted at the next good moment, and not as an exception in the middle of something."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interrupts:
    """Notes an interrupt while the block lasts; a second one is raised as always.

    Only where Python would raise `KeyboardInterrupt`: in the main thread, unless someone else handles the signal.

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
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.seen:
            raise KeyboardInterrupt
        self.seen = True
