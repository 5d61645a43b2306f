"""`bouncy completion`: let the Tab key complete commands, options, samplers and file names."""

from __future__ import annotations

import os

import click

from bouncy.cli._parameters import Command, words

_SHELLS = ("bash", "zsh", "fish")
_EPILOG = """\b
Where to put it:
  bash   bouncy completion bash > ~/.local/share/bash-completion/completions/bouncy
  zsh    bouncy completion zsh > ~/.zfunc/_bouncy
         with `fpath+=~/.zfunc; autoload -Uz compinit; compinit` in ~/.zshrc
  fish   bouncy completion fish > ~/.config/fish/completions/bouncy.fish

\b
For this session only:
  eval "$(bouncy completion bash)"
  eval "$(bouncy completion zsh)"
  bouncy completion fish | source
"""


@click.command(cls=Command, short_help="Print a script that lets Tab complete.", epilog=_EPILOG)
@click.argument("shell", required=False, **words(*_SHELLS))
def command(shell: str | None) -> None:
    """Print the script that tells a shell, by default that of $SHELL, how to complete the arguments of bouncy.

    Tab then completes commands, options, names of samplers and of plots, and file names. A shell that was open before
    has to be opened anew.
    """
    from click.shell_completion import get_completion_class

    from bouncy.cli.main import main

    chosen = shell or _own_shell()
    build = get_completion_class(chosen)
    assert build is not None, f"click knows the shells {_SHELLS}"
    click.echo(build(main, {}, "bouncy", "_BOUNCY_COMPLETE").source())


def _own_shell() -> str:
    """Return the name of the user's shell."""
    name = os.path.basename(os.environ.get("SHELL", ""))
    if name not in _SHELLS:
        raise click.UsageError(f"SHELL is {name!r}; say for which shell: {', '.join(_SHELLS)}")
    return name
