"""The paper's experiments from start to report."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from bouncy._validation import check_count
from bouncy.experiments.settings import FIGURES, Settings, Version, load, load_views
from bouncy.experiments.table import Row

DEFAULT_OUT = "bouncy-reproduction"
DEFAULT_SEED = 1711

Results = dict[str, tuple[Settings, list[Row]]]


def reproduce(
    what: str = "all",
    *,
    quick: bool = False,
    out: str | Path = DEFAULT_OUT,
    seed: int = DEFAULT_SEED,
    workers: int | None = None,
    progress: bool | None = None,
    version: Version | None = None,
) -> Path:
    """Run the experiments of the paper again, and write figures and a report that says which claims hold.

    Every run is kept in `<out>/figure1.csv` or `<out>/figure2.csv` as soon as it is finished: a call that was
    interrupted goes on where it was when it is repeated. The work is done by other processes, so a script must call
    this under `if __name__ == "__main__":`.

    Parameters
    ----------
    what : {"all", "figure1", "figure2"}
        Which figures.
    quick : bool
        Fewer and shorter runs: minutes instead of about half an hour.
    out : str or Path
        Directory for CSV files, figures and reports; made if need be.
    seed : int
        All models and chains are drawn from it.
    workers : int, optional
        Processes that run at once; as many as cores by default. CPU time is compared, so that more processes than
        cores only blur the comparison.
    progress : bool, optional
        Show progress bars; by default on a terminal.
    version : {"paper", "quick", "tiny"}, optional
        Settings to use, instead of those that `quick` stands for.

    Returns
    -------
    Path
        The report, `<out>/report.html`; `report.md` and the figures lie beside it.
    """
    return run(what, quick=quick, out=out, seed=seed, workers=workers, progress=progress, version=version)[0]


def run(
    what: str,
    *,
    quick: bool,
    out: str | Path,
    seed: int,
    workers: int | None,
    progress: bool | None,
    version: Version | None = None,
) -> tuple[Path, Results]:
    """Do what `reproduce` does, and return the rows of each figure beside the path of the report."""
    figures = chosen_figures(what)
    seed = check_count("seed", seed, 0)
    workers = None if workers is None else check_count("workers", workers)
    version = version or ("quick" if quick else "paper")
    settings = [load(figure, version) for figure in figures]
    require_matplotlib()

    # Compiled code and drawing are loaded only when everything that can be asked wrongly was asked rightly.
    from bouncy.experiments.report import write_report
    from bouncy.experiments.runner import measure
    from bouncy.experiments.views import measure_views

    directory = Path(out)
    results = {s.figure: (s, measure(s, directory, seed, workers, progress)) for s in settings}
    write_report(directory, results, measure_views(load_views(version), seed, workers, progress))
    return directory / "report.html", results


def chosen_figures(what: str) -> tuple[str, ...]:
    """Return the figures that a word stands for."""
    if what == "all":
        return FIGURES
    if what not in FIGURES:
        raise ValueError(f"what is {what!r}; expected one of: all, {', '.join(FIGURES)}")
    return (what,)


def require_matplotlib() -> None:
    """Raise if figures could not be drawn at the end of it all."""
    if find_spec("matplotlib") is None:
        raise ImportError("the report needs matplotlib, which is not installed; pip install 'bouncy[plots]'")
