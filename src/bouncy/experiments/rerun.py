"""The paper's experiments from start to report."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bouncy._validation import check_count
from bouncy.experiments.settings import DEFAULT_OUT, DEFAULT_SEED, FIGURES, Settings, Version, load, load_views

if TYPE_CHECKING:
    from bouncy.experiments.ledger import Row

Results = dict[str, tuple[Settings, "list[Row]"]]


class Outcome(NamedTuple):
    """The report of a rerun and what it is made from."""

    report: Path
    results: Results  # settings and rows of each figure in the report
    remarks: list[str]  # a line for each figure in the directory that is not in the report


def reproduce(
    what: str = "all",
    *,
    quick: bool = False,
    out: str | Path | None = None,
    seed: int = DEFAULT_SEED,
    workers: int | None = None,
    progress: bool | None = None,
    version: Version | None = None,
) -> Path:
    """Run the experiments of the paper again, and write figures and a report that says which claims hold.

    Every run is kept in `<out>/figure1.csv` or `<out>/figure2.csv` as soon as it is finished: an interrupted call
    continues when it is repeated. The report includes a figure that is not asked for, if the directory holds runs of it
    with the same settings, seed and version on the same machine; if they differ, a warning says how. The work is done
    by other processes, so a script must call this under `if __name__ == "__main__":`.

    Parameters
    ----------
    what : {"all", "figure1", "figure2"}
        Which figures.
    quick : bool
        Fewer and shorter runs: minutes instead of about half an hour.
    out : str or Path, optional
        Directory for CSV files, figures and reports; created if missing. By default `bouncy-reproduction`, or
        `bouncy-reproduction-quick` if `quick`.
    seed : int
        All models and chains are drawn from it.
    workers : int, optional
        Number of processes; as many as cores by default. CPU time is compared, so more processes than cores only blur
        the comparison.
    progress : bool, optional
        Show progress bars; by default on a terminal.
    version : {"paper", "quick", "tiny"}, optional
        Settings to use, instead of those that `quick` stands for.

    Returns
    -------
    Path
        The report, `<out>/report.html`; `report.md` and the figures lie beside it.

    Examples
    --------
    >>> from bouncy.experiments import reproduce
    >>> reproduce("figure1", quick=True)  # doctest: +SKIP
    PosixPath('bouncy-reproduction-quick/report.html')
    """
    outcome = run(what, quick=quick, out=out, seed=seed, workers=workers, progress=progress, version=version)
    for remark in outcome.remarks:
        warnings.warn(remark, stacklevel=2)
    return outcome.report


def run(
    what: str,
    *,
    quick: bool,
    out: str | Path | None,
    seed: int,
    workers: int | None,
    progress: bool | None,
    version: Version | None = None,
) -> Outcome:
    """Do what `reproduce` does, and return the results and remarks too."""
    figures = chosen_figures(what)
    seed = check_count("seed", seed, 0)
    workers = None if workers is None else check_count("workers", workers)
    version = version or ("quick" if quick else "paper")
    settings = [load(figure, version) for figure in figures]
    require_matplotlib()

    # Compiled code and drawing are loaded after all arguments are checked.
    from bouncy.experiments.ledger import describe_machine
    from bouncy.experiments.report import write_report
    from bouncy.experiments.runner import measure
    from bouncy.experiments.views import keep_views

    directory = Path(DEFAULT_OUT[version] if out is None else out)
    measured = {s.figure: (s, measure(s, directory, seed, workers, progress)) for s in settings}
    others = [load(figure, version) for figure in FIGURES if figure not in figures]
    kept, remarks = read_kept(directory, others, seed)
    found = {**measured, **kept}
    results = {figure: found[figure] for figure in FIGURES if figure in found}
    views = keep_views(directory, load_views(version), seed, workers, progress)
    write_report(directory, results, views, describe_machine())
    return Outcome(directory / "report.html", results, remarks)


def read_kept(directory: Path, figures: list[Settings], seed: int) -> tuple[Results, list[str]]:
    """Return figures that were measured earlier, and a line for each that cannot be shown."""
    from bouncy.experiments.ledger import Ledger, sort_rows

    results: Results = {}
    remarks: list[str] = []
    for settings in figures:
        ledger = Ledger(directory, settings, seed)
        try:
            rows = ledger.read()
        except ValueError as error:
            remarks.append(f"The report is without {settings.figure}: {error}")
            continue
        if rows:
            results[settings.figure] = settings, sort_rows(rows)
        elif ledger.path.exists():
            remarks.append(f"The report is without {settings.figure}: {ledger.path} holds no complete run")
    return results, remarks


def chosen_figures(what: str) -> tuple[str, ...]:
    """Return the names of the figures to run."""
    if what == "all":
        return FIGURES
    if what not in FIGURES:
        raise ValueError(f"what is {what!r}; expected one of: all, {', '.join(FIGURES)}")
    return (what,)


def require_matplotlib() -> None:
    """Raise if figures cannot be drawn."""
    if find_spec("matplotlib") is None:
        raise ImportError("the report needs matplotlib, which is not installed; pip install 'bouncy[plots]'")
