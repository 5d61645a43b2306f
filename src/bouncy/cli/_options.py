"""Options and arguments that commands share, and how they are shown in a help text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from bouncy.cli._suggestions import did_you_mean

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

# The heading of options that have no other, and how many options need no headings.
_REST = "Options"
_FEW = 8


class Option(click.Option):
    """An option that stands under a heading of its own in the help text."""

    def __init__(self, *declarations: Any, section: str = _REST, **settings: Any) -> None:
        super().__init__(*declarations, **settings)
        self.section = section


class Command(click.Command):
    """A command whose help text has its options under headings, if there are many."""

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        shown = [parameter for parameter in self.get_params(context) if isinstance(parameter, click.Option)]
        few = len(shown) <= _FEW
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in sorted(shown, key=lambda parameter: _section(parameter) == _REST):
            row = parameter.get_help_record(context)
            if row is not None:
                sections.setdefault(_REST if few else _section(parameter), []).append(row)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def _section(parameter: click.Parameter) -> str:
    return getattr(parameter, "section", _REST)


def option(*declarations: str, section: str = _REST, **settings: Any) -> Callable[[Decorated], Decorated]:
    """Declare an option under a heading."""
    return click.option(*declarations, cls=Option, section=section, **settings)


def one_of(known: Callable[[], Iterable[str]]) -> dict[str, Any]:
    """Return the settings of an option whose value is one of some words, which are found out only when needed."""

    def check(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        if value is not None and value not in (names := list(known())):
            expected = ", ".join(map(repr, names))
            raise click.BadParameter(f"{value!r} is not one of {expected}.{did_you_mean(value, names)}")
        return value

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        return [word for word in known() if word.startswith(incomplete)]

    return {"callback": check, "shell_complete": complete}


def at_least(minimum: int) -> dict[str, Any]:
    """Return the settings of an option that is an integer of some size."""

    def check(context: click.Context, parameter: click.Parameter, value: int | None) -> int | None:
        if value is not None and value < minimum:
            raise click.BadParameter(f"expected an integer >= {minimum}, got {value}")
        return value

    return {"type": int, "callback": check}


def positive() -> dict[str, Any]:
    """Return the settings of an option that is a number above zero."""

    def check(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
        if value is not None and not 0.0 < value < math.inf:
            raise click.BadParameter(f"expected a number above 0, got {value:g}")
        return value

    return {"type": float, "callback": check}


def words(*choices: str) -> dict[str, Any]:
    """Return the settings of an option whose value is one of a few words, all of which fit in its help text."""
    return {"metavar": f"[{'|'.join(choices)}]", **one_of(lambda: choices)}


def sampler_names() -> list[str]:
    """Return the names of samplers of spins, which are what model files describe."""
    from bouncy.samplers import names

    return names()


def applied(*decorators: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    """Return a decorator that declares several options, in this order."""

    def decorate(function: Decorated) -> Decorated:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


_OUTPUT, _ENDING = "Output", "When to stop"
json_option = option("--json", "as_json", section=_OUTPUT, is_flag=True, help="Print a JSON object instead of a table.")
force_option = option("--force", section=_OUTPUT, is_flag=True, help="Replace what exists.")
progress_option = option("--progress/--no-progress", section=_OUTPUT, default=None,
                         help="Show a progress bar; by default on a terminal.")  # fmt: skip
out_option = option("--out", section=_OUTPUT, type=click.Path(), metavar="RUN.nc",
                    help="Save the run, as NetCDF (.nc) or zarr (.zarr).")  # fmt: skip
threads_option = option("--threads", section="Sampling", metavar="N", **at_least(1),
                        help="As many as cores by default. Changes the speed, never the result.")  # fmt: skip
ending_options = applied(
    option("--draws", section=_ENDING, metavar="N", help="After N draws per chain.", **at_least(1)),
    option("--seconds", section=_ENDING, metavar="T", help="After T seconds of CPU time per chain.", **positive()),
    option("--until-se", section=_ENDING, metavar="SE", **positive(),
           help="When all means have a standard error below SE."),
)  # fmt: skip

run_argument = click.argument("run", type=click.Path(exists=True))

MODEL = "Model"
model_argument = click.argument("model", type=click.Path(exists=True, dir_okay=False))
reading_options = applied(
    option(
        "--format",
        "format_name",
        section=MODEL,
        help="Format of MODEL, where its suffix does not tell.",
        **words("npz", "json", "coo", "uai"),
    ),
    option("--vartype", section=MODEL, help="coo: what the variables are, if the file does not say.",
           **words("SPIN", "BINARY")),
    option("--temperature", metavar="T", **positive(), section=MODEL, help="coo: p ~ exp(-E / T); 1 by default."),
    option("--evidence", type=click.Path(exists=True, dir_okay=False), section=MODEL,
           help="uai: file of observed variables."),
)  # fmt: skip


def load(model: str, reading: dict[str, Any]) -> Any:
    """Read a model with the options of `reading_options`."""
    import bouncy

    return bouncy.load_model(model, **reading_settings(reading))


def reading_settings(reading: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `load_model` that were given, out of the values of `reading_options`."""
    named = {"format": reading["format_name"], **{name: reading[name] for name in _READING}}
    return {name: value for name, value in named.items() if value is not None}


_READING = ("vartype", "temperature", "evidence")
