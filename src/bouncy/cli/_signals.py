"""How a command ends that is told to: a request to terminate does what Ctrl-C does, and has an exit code of its own."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# `timeout` and batch systems signal a process and its group: what comes this soon after is the same request again.
_ECHO_SECONDS = 0.5


class Requests:
    """Requests to terminate, each of which becomes an interruption.

    Attributes
    ----------
    exit_code : int
        What to exit with after an interruption: 143 if it was a request to terminate, 130 if it was Ctrl-C.
    """

    def __init__(self) -> None:
        self.exit_code = 128 + signal.SIGINT
        self._last = float("-inf")

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Do what Ctrl-C does at this moment: a sampler that waits for it has a handler of its own."""
        now = time.monotonic()
        if now - self._last < _ECHO_SECONDS:
            return
        self._last, self.exit_code = now, 128 + number
        handler = signal.getsignal(signal.SIGINT)
        (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, frame)


@contextmanager
def requests_heard() -> Iterator[Requests]:
    """Hear requests to terminate meanwhile, unless the process was started deaf to them."""
    requests = Requests()
    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        yield requests
        return
    with _interruptible():
        before = signal.signal(signal.SIGTERM, requests.hear)
        try:
            yield requests
        finally:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let samplers wait for Ctrl-C where a shell started the process in the background, deaf to it.

    Then it is still not heard, because it is blocked, but a request to terminate can take its place.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # forgets what was blocked
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
