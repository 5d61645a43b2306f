"""`bouncy`: the command that all others belong to."""

from __future__ import annotations

from typing import Any

import click

from bouncy._registry import modules


class _Commands(click.Group):
    """The commands in the files beside this one, with errors in one line."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(_commands())

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        return _commands().get(name)

    def invoke(self, context: click.Context) -> Any:
        """Run a command; what it raises is shown without a traceback, unless one was asked for."""
        try:
            return super().invoke(context)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if context.params["traceback"]:
                raise
            raise click.ClickException(str(error) or type(error).__name__) from error


def _commands() -> dict[str, click.Command]:
    """Return the commands by name."""
    found = {module.__name__.rpartition(".")[2]: getattr(module, "command", None) for module in modules("bouncy.cli")}
    return {name: command for name, command in found.items() if isinstance(command, click.Command)}


def _show_version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        import bouncy

        click.echo(f"bouncy {bouncy.__version__}")
        context.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--traceback", is_flag=True, help="Show where an error came from.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def main(traceback: bool) -> None:
    """Sample binary distributions with the Binary Bouncy Particle Sampler.

    Exits with 0 on success, 1 on an error, 2 on wrong usage, 130 when interrupted.
    """
