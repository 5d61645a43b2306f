"""A pseudo-terminal in which a command runs as it does for a person: keys go in, what is on the screen comes out."""

import os
import pty
import select
import subprocess
import sys
import termios
import time

# A process gets the terminal's keys, Ctrl-C among them, only if the terminal controls its session.
_CONTROLLED = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
# Seconds that a busy machine may take for what takes one.
PATIENCE = 120.0


class Terminal:
    """Run a command in a terminal of its own; `output` is everything that it has shown so far."""

    def __init__(self, command, *, cwd, columns=80, environment=None):
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, columns))
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _CONTROLLED, *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env={**os.environ, "TERM": "xterm", "COLUMNS": str(columns), **(environment or {})},
            start_new_session=True,
        )
        os.close(slave)
        self.output = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)

    def press(self, keys):
        """Send keys, such as "\\x03" for Ctrl-C."""
        os.write(self._master, keys.encode())

    def wait_for(self, text):
        """Wait until the command has shown a text."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.output:
            assert self._read(deadline), f"{text!r} was not shown: {self.output!r}"

    def wait(self):
        """Wait until the command ends, and return its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self.process.wait(max(deadline - time.monotonic(), 1.0))

    def _read(self, deadline):
        """Take in what is there; return False when there will be no more, or the time is over."""
        ready, _, _ = select.select([self._master], [], [], max(deadline - time.monotonic(), 0.0))
        if not ready:
            return False
        try:
            shown = os.read(self._master, 1 << 16)
        except OSError:  # how Linux says that the other end is closed
            return False
        self.output += shown.decode(errors="replace").replace("\r\n", "\n")
        return bool(shown)
