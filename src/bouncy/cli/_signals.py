"""How a command ends that is told to: Ctrl-C and the request to terminate are heard once, and obeyed at once after."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# A terminal, a wrapper and `timeout` may each pass on the same request: what comes this soon after is no second one.
_ECHO_SECONDS = 0.5
_NAMES = ("SIGINT", "SIGTERM")


class Requests:
    """What a process was asked to do: the first request interrupts, as Ctrl-C does in Python; a second one ends it.

    Attributes
    ----------
    exit_code : int
        What to exit with after an interruption: 128 and the number of the signal, 130 if there was none.
    """

    def __init__(self) -> None:
        self.exit_code = 128 + signal.SIGINT
        self._first: float | None = None

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        now = time.monotonic()
        if self._first is None:
            self._first, self.exit_code = now, 128 + number
            self._interrupt(frame)
        elif now - self._first > _ECHO_SECONDS:
            os.write(2, b"\nEnded at once, as asked a second time.\n")
            os._exit(128 + number)

    def _interrupt(self, frame: FrameType | None) -> None:
        """Do what Ctrl-C does at this moment: a sampler may have replaced the handler by one of its own."""
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and handler != self.hear:
            handler(signal.SIGINT, frame)
        else:
            raise KeyboardInterrupt


@contextmanager
def requests_heard() -> Iterator[Requests]:
    """Hear requests to stop meanwhile. A process that was started deaf to one of them stays so."""
    requests = Requests()
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        numbers = [getattr(signal, name) for name in _NAMES]
        before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, requests.hear)
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
