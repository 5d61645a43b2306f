"""Posterior inclusion probabilities of variables, as a table."""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy import _html
from bouncy._labels import short_label

Array = NDArray[np.float64]

# Rows that are printed of a long table.
_SHOWN = 20


class Inclusion(NamedTuple):
    """One row: a variable, the probability that it belongs in the model, and the standard error of that estimate."""

    variable: Hashable
    probability: float
    standard_error: float


class InclusionTable:
    """Posterior inclusion probabilities, the most probable variable first; see `Run.inclusion_table`.

    Parameters
    ----------
    labels : sequence
        Names of the d variables.
    probability, standard_error : ndarray, shape (d,)
    warnings : sequence of str
        Sentences that are printed below the table.
    """

    def __init__(
        self, labels: Sequence[Hashable], probability: Array, standard_error: Array, warnings: Sequence[str] = ()
    ) -> None:
        self._warnings = warnings
        order = np.argsort(-probability, kind="stable")
        self._rows = [Inclusion(labels[j], float(probability[j]), float(standard_error[j])) for j in order]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Inclusion]:
        return iter(self._rows)

    def __getitem__(self, rank: int) -> Inclusion:
        return self._rows[rank]

    def to_frame(self) -> Any:
        """Return a pandas data frame with the variables as index and columns `probability` and `standard_error`."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as error:
            raise ImportError("to_frame needs pandas: install it with  pip install pandas") from error
        return pandas.DataFrame(self._rows, columns=list(Inclusion._fields)).set_index("variable")

    def __str__(self) -> str:
        shown = self._rows[:_SHOWN]
        width = max(len("variable"), *(len(str(row.variable)) for row in shown))
        lines = [f"{'variable':<{width}}  probability  std. error"]
        lines += [f"{row.variable!s:<{width}}  {row.probability:>11.4f}  {_error(row):>10}" for row in shown]
        return "\n".join([*lines, *self._hidden(), *(f"warning: {text}" for text in self._warnings)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the same for a notebook."""
        rows = [[short_label(row.variable), f"{row.probability:.4f}", _error(row)] for row in self._rows[:_SHOWN]]
        table = _html.table(["variable", "probability", "std. error"], rows)
        return f"{table}\n{_html.text(self._hidden(), [f'warning: {text}' for text in self._warnings])}"

    def _hidden(self) -> list[str]:
        hidden = len(self) - _SHOWN
        return [f"... {hidden} more, none above {self._rows[_SHOWN].probability:.4f}"] if hidden > 0 else []


def _error(row: Inclusion) -> str:
    return "unknown" if np.isnan(row.standard_error) else f"{row.standard_error:.2g}"
