"""Runners of the command line, the same for every version of click."""

import inspect

from click.testing import CliRunner


def new_runner():
    """Return a runner that keeps standard output and standard error apart: before click 8.2 it has to be told so."""
    told = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}
    return CliRunner(**told)
