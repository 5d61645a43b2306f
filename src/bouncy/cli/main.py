"""`bouncy`: the group of all commands, and how they end: errors in one line, signals with their exit codes."""

from __future__ import annotations

import errno
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from bouncy._registry import modules
from bouncy.cli._output import in_options, one_line
from bouncy.cli._parameters import did_you_mean

# `timeout` and batch systems signal a process and its group: a signal this soon after another is the same request.
_ECHO_SECONDS = 0.5


class Requests:
    """Requests to terminate (SIGTERM), each of which is handled as Ctrl-C.

    Attributes
    ----------
    exit_code : int
        Exit code after an interruption: 143 after a request to terminate, 130 after Ctrl-C.
    """

    def __init__(self) -> None:
        self.exit_code = 128 + signal.SIGINT
        self._last = float("-inf")

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Call the present handler of Ctrl-C, which a running sampler has replaced by its own."""
        now = time.monotonic()
        if now - self._last < _ECHO_SECONDS:
            return
        self._last, self.exit_code = now, 128 + number
        handler = signal.getsignal(signal.SIGINT)
        (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, frame)


@contextmanager
def _requests_to_terminate() -> Iterator[Requests]:
    """Handle requests to terminate in this context, unless the process was started to ignore them."""
    requests = Requests()
    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        yield requests
        return
    with _interruptible():
        before = signal.signal(signal.SIGTERM, requests.handle)
        try:
            yield requests
        finally:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Restore the handler of Ctrl-C in a process that a shell started in the background to ignore it.

    Samplers stop only if there is a handler. Ctrl-C itself stays blocked; a request to terminate calls the handler.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # discards blocked signals
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


class _Commands(click.Group):
    """The commands in the files beside this one, with errors and warnings in one line."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(_commands())

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        return _commands().get(name)

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command by its name; for an unknown name, suggest the nearest."""
        name, known = arguments[0], self.list_commands(context)
        if name not in known and not name.startswith("-") and not context.resilient_parsing:
            context.fail(f"No such command {name!r}.{did_you_mean(name, known)}")
        return super().resolve_command(context, arguments)

    def invoke(self, context: click.Context) -> Any:
        """Run a command, with the requests to terminate it in `context.obj`."""
        requests: Requests = context.with_resource(_requests_to_terminate())
        context.obj = requests
        if context.params["debug"]:
            return self._interruptible(context, requests)
        with _plain_warnings():
            return self._without_tracebacks(context, requests)

    def _without_tracebacks(self, context: click.Context, requests: Requests) -> Any:
        try:
            return self._interruptible(context, requests)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if (
                isinstance(error, OSError) and error.errno == errno.EPIPE
            ):  # the reader has closed the pipe, as `head` does
                raise
            raise click.ClickException(self._worded(context, error)) from error

    def _worded(self, context: click.Context, error: Exception) -> str:
        command = self.get_command(context, context.invoked_subcommand or "")
        return in_options(one_line(error), command, self.list_commands(context))

    def _interruptible(self, context: click.Context, requests: Requests) -> Any:
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            context.exit(requests.exit_code)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show warnings as one line, without their place in the sources."""

    def show(message: Warning | str, *place: Any, **more: Any) -> None:
        click.echo(f"Warning: {' '.join(str(message).split())}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _commands() -> dict[str, click.Command]:
    """Return the commands by name."""
    found = {module.__name__.rpartition(".")[2]: getattr(module, "command", None) for module in modules("bouncy.cli")}
    return {name: command for name, command in found.items() if isinstance(command, click.Command)}


def _show_version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        import bouncy

        click.echo(f"bouncy {bouncy.__version__}")
        context.exit()


_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_EPILOG = """\b
Examples:
  bouncy sample model.npz --seconds 60 --out run.npz
  bouncy sample model.npz --checkpoint work && bouncy resume work
  bouncy exact small.json --json
"""


@click.group(cls=_Commands, context_settings=_SETTINGS, epilog=_EPILOG)
@click.option("--debug", is_flag=True, help="Show where errors and warnings come from.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def main(debug: bool) -> None:
    """Sample binary distributions with the Binary Bouncy Particle Sampler.

    Exits with 0 on success, 1 on an error, 2 on wrong usage, 130 when interrupted, 143 when terminated.
    """
