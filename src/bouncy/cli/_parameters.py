"""Types, options and arguments that commands share, and help texts with headings."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    _Type = click.ParamType[Any]
else:
    _Type = click.ParamType  # not generic in older versions of click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

# Heading of options without another, and the number of options up to which there are no headings.
_REST = "Options"
_FEW = 8


class Option(click.Option):
    """An option under a heading of the help text; a help text that is a function is called when it is shown."""

    def __init__(
        self, *declarations: Any, section: str = _REST, help: str | Callable[[], str] = "", **settings: Any
    ) -> None:
        super().__init__(*declarations, **settings)
        self.section, self._help = section, help

    def get_help_record(self, context: click.Context) -> tuple[str, str] | None:
        self.help = self._help() if callable(self._help) else self._help
        return super().get_help_record(context)


class Command(click.Command):
    """A command whose help text has its options under headings, if there are many."""

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        options = [parameter for parameter in self.get_params(context) if isinstance(parameter, click.Option)]
        shown = [parameter for parameter in options if not parameter.hidden]
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


def combined(*decorators: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    """Return a decorator that declares several options, in this order."""

    def decorate(function: Decorated) -> Decorated:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def renamed_option(old: str, new: str) -> Callable[[Decorated], Decorated]:
    """Declare the old name of an option, which the help does not list and which raises an error that tells the new."""

    def refuse(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value is not None:
            raise click.NoSuchOption(old, f"No such option: {old}. Its name is now {new}.", ctx=context)

    return click.option(old, hidden=True, expose_value=False, callback=refuse)


# Types


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question, with a space before it, that offers the known words nearest to `word`, or nothing.

    Examples
    --------
    >>> did_you_mean("gibs", ["gibbs", "hmc"])
    " Did you mean 'gibbs'?"
    >>> did_you_mean("bps", ["bps-exponential", "bps-gaussian", "hmc"])
    " Did you mean 'bps-exponential' or 'bps-gaussian'?"
    >>> did_you_mean("nothing", ["gibbs", "hmc"])
    ''
    """
    names, typed = {name.lower(): name for name in known}, word.lower()
    near = [name for name in names if typed and typed in name] or difflib.get_close_matches(typed, names)
    return f" Did you mean {' or '.join(repr(names[name]) for name in near[:3])}?" if near else ""


class OneOf(_Type):
    """One of the words that a function returns, which is called only when a value is checked or completed."""

    name = "word"

    def __init__(self, known: Callable[[], Iterable[str]]) -> None:
        self._known = known

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        known = list(self._known())
        if value not in known:
            expected = ", ".join(map(repr, known))
            self.fail(f"{value!r} is not one of {expected}.{did_you_mean(value, known)}", parameter, context)
        return value

    def shell_complete(
        self, context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(word) for word in self._known() if word.startswith(incomplete)]


def words(*choices: str) -> dict[str, Any]:
    """Return the settings of a parameter that is one of a few words, all of which are shown in the help text."""
    return {"type": OneOf(lambda: choices), "metavar": f"[{'|'.join(choices)}]"}


class Number(_Type):
    """A number of a type of click's within bounds."""

    def __init__(self, kind: _Type, expected: str, is_allowed: Callable[[Any], bool]) -> None:
        self.name, self._kind, self._expected, self._is_allowed = kind.name, kind, expected, is_allowed

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        number = self._kind.convert(value, parameter, context)
        if not self._is_allowed(number):
            self.fail(f"expected {self._expected}, got {value}", parameter, context)
        return number


def at_least(minimum: int) -> Number:
    """Return the type of an integer that is not below a minimum."""
    return Number(click.INT, f"an integer >= {minimum}", lambda number: number >= minimum)


POSITIVE = Number(click.FLOAT, "a number above 0", lambda number: 0.0 < number < math.inf)


class NewFile(click.Path):
    """A path to write to, with one of the known suffixes."""

    def __init__(self, *suffixes: str) -> None:
        super().__init__()
        self._suffixes = suffixes

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        path = super().convert(value, parameter, context)
        suffix = suffix_of(value)
        if suffix not in self._suffixes:
            self.fail(
                f"{path!r} is a path whose suffix {suffix!r} stands for nothing that can be written; expected one of "
                f"{', '.join(sorted(self._suffixes))}.{did_you_mean(suffix, self._suffixes)}",
                parameter,
                context,
            )
        return path


def suffix_of(path: str) -> str:
    """Return the suffix of a path, such as ".npz"."""
    return os.path.splitext(path.rstrip(os.sep))[1].lower()


# Options and arguments


_OUTPUT, _ENDING, _MODEL = "Output", "When to stop", "Model"
json_option = option("--json", "as_json", section=_OUTPUT, is_flag=True, help="Print a JSON object instead of a table.")
force_option = option("--force", section=_OUTPUT, is_flag=True, help="Replace what exists.")
progress_option = option("--progress/--no-progress", section=_OUTPUT, default=None,
                         help="Show a progress bar; by default on a terminal.")  # fmt: skip
out_option = option("--out", section=_OUTPUT, type=NewFile(".npz", ".nc", ".zarr"), metavar="RUN.npz",
                    help="Save the run, as NumPy arrays (.npz), NetCDF (.nc) or zarr (.zarr).")  # fmt: skip
threads_option = option("--threads", section="Sampling", metavar="N", type=at_least(1),
                        help="As many as cores by default. Changes the speed, never the result.")  # fmt: skip
_until_se_option = option("--until-se", section=_ENDING, metavar="SE", type=POSITIVE,
                          help="When all means have a standard error below SE.")  # fmt: skip
ending_options = combined(
    option("--draws", section=_ENDING, metavar="N", type=at_least(1), help="After N draws per chain."),
    option("--seconds", section=_ENDING, metavar="T", type=POSITIVE, help="After T seconds of CPU time per chain."),
    _until_se_option,
)
total_options = combined(
    option("--total-draws", section=_ENDING, metavar="N", type=at_least(1),
           help="After N draws per chain, those before the stop included."),
    renamed_option("--draws", "--total-draws"),
    option("--total-seconds", section=_ENDING, metavar="T", type=POSITIVE,
           help="After T seconds of CPU time per chain, those before the stop included."),
    renamed_option("--seconds", "--total-seconds"),
    _until_se_option,
)  # fmt: skip
run_argument = click.argument("run", type=click.Path(exists=True))
model_argument = click.argument("model", type=click.Path(exists=True, dir_okay=False))
reading_options = combined(
    option("--format", section=_MODEL, help="Format of MODEL, where its suffix does not tell.",
           **words("npz", "json", "coo", "uai")),
    option("--vartype", section=_MODEL, help="coo: what the variables are, if the file does not say.",
           **words("SPIN", "BINARY")),
    option("--temperature", section=_MODEL, metavar="T", type=POSITIVE, help="coo: p ~ exp(-E / T); 1 by default."),
    option("--evidence", section=_MODEL, type=click.Path(exists=True, dir_okay=False),
           help="uai: file of observed variables."),
)  # fmt: skip


def take_reading(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the values of `reading_options`, and return those that were given: arguments of `bouncy.load_model`."""
    values = {name: options.pop(name) for name in ("format", "vartype", "temperature", "evidence")}
    return {name: value for name, value in values.items() if value is not None}
