"""`bouncy`: the command that all others belong to."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from bouncy._registry import modules
from bouncy.cli._signals import Requests, requests_heard
from bouncy.cli._suggestions import did_you_mean
from bouncy.cli._wording import in_options, one_line


class _Commands(click.Group):
    """The commands in the files beside this one, with errors and warnings in one line."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(_commands())

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        return _commands().get(name)

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is asked for; one that is not there may be a slip."""
        name, known = arguments[0], self.list_commands(context)
        if name not in known and not name.startswith("-") and not context.resilient_parsing:
            context.fail(f"No such command {name!r}.{did_you_mean(name, known)}")
        return super().resolve_command(context, arguments)

    def invoke(self, context: click.Context) -> Any:
        """Run a command. It finds what it was asked by signals in `context.obj`."""
        requests: Requests = context.with_resource(requests_heard())
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
            if isinstance(error, OSError) and error.errno == errno.EPIPE:  # the reader has seen enough, as `head` does
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
    """Show warnings as a sentence, without the place in the sources that nobody at a command line has asked for."""

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
  bouncy sample model.npz --seconds 60 --out run.nc
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
