"""Posterior inclusion probabilities of variables, as a table."""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy.results.paths import PathRun

if TYPE_CHECKING:
    from bouncy.results.run import Run

# Rows that are printed of a long table.
_SHOWN = 20


class Inclusion(NamedTuple):
    """One row: a variable, the probability that it belongs in the model, and the standard error of that estimate."""

    variable: Hashable
    probability: float
    standard_error: float


class InclusionTable:
    """Posterior inclusion probabilities of a run on a `VariableSelection` or a `SpikeSlab`, the most probable first.

    On a `VariableSelection` the probability of variable j is (1 + E[s_j])/2, with E[s_j] the average of the conditional
    means E[s_j | rest] (Rao-Blackwellised), so that small probabilities are estimated from all sweeps and not from the
    few visits alone. On a `SpikeSlab` it is the share of time in which the coefficient was not zero.

    Parameters
    ----------
    run : Run
        What `bouncy.sample` returned; its warnings are printed below the table.

    Examples
    --------
    >>> import numpy as np
    >>> import bouncy
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> target = bouncy.VariableSelection(X, X[:, 1] + 0.1 * X[:, 0] ** 2, labels=["a", "b", "c"])
    >>> table = bouncy.InclusionTable(bouncy.sample(target, draws=500, seed=0))
    >>> table[0].variable, round(table[0].probability, 3)
    ('b', 1.0)
    """

    def __init__(self, run: Run) -> None:
        if not hasattr(run, "mean_se"):
            raise TypeError(f"InclusionTable takes a run, as in InclusionTable(bouncy.sample(target)), got {run!r:.60}")
        # A variable that is always in the model, or never, is an answer and no reason to worry.
        said = ("never moved", "same value in every draw")
        self._warnings = [text for text in run.diagnostics["warnings"] if not any(part in text for part in said)]
        probability, error = _probabilities(run)
        order = np.argsort(-probability, kind="stable")
        labels = run.target.labels
        self._rows = [Inclusion(labels[j], float(probability[j]), float(error[j])) for j in order]

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
        if len(self) > _SHOWN:
            lines.append(f"... {len(self) - _SHOWN} more, none above {self._rows[_SHOWN].probability:.4f}")
        lines += [f"warning: {text}" for text in self._warnings]
        return "\n".join(lines)

    __repr__ = __str__


def _probabilities(run: Run) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the probability of each variable to be in the model, and its standard error."""
    if isinstance(run, PathRun):
        return run.inclusion, run.inclusion_se
    return (1.0 + run.mean) / 2.0, run.mean_se / 2.0


def _error(row: Inclusion) -> str:
    return "unknown" if np.isnan(row.standard_error) else f"{row.standard_error:.2g}"
