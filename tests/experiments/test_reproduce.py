"""From start to report, in the smallest version."""

from pathlib import Path

import pytest

from bouncy.experiments import reproduce as module
from bouncy.experiments.reproduce import reproduce

FILES = [
    "figure1.csv", "figure1.json", "figure1.png", "figure2.csv", "figure2.json", "figure2.png",
    "report.html", "report.md", "views.png",
]  # fmt: skip


def test_from_start_to_report(tmp_path):
    """Catches parts that do not fit together, and files that are missing or left over."""
    report = reproduce("all", version="tiny", out=tmp_path / "new" / "place", seed=2, workers=2, progress=False)
    assert report == tmp_path / "new" / "place" / "report.html"
    assert sorted(path.name for path in report.parent.iterdir()) == FILES
    assert all((report.parent / name).stat().st_size > 200 for name in FILES)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"what": "figure3"}, ValueError, "what is 'figure3'; expected one of: all, figure1, figure2"),
        ({"what": "all", "seed": -1}, ValueError, "seed must be an integer >= 0, got -1"),
        ({"what": "all", "seed": 0.5}, TypeError, "seed must be an integer"),
        ({"what": "all", "workers": 0}, ValueError, "workers must be an integer >= 1, got 0"),
        ({"what": "all", "version": "x"}, ValueError, "version is 'x'; expected one of: paper, quick, tiny"),
    ],
)
def test_wrong_arguments_are_refused_at_once(tmp_path, arguments, error, message):
    """Catches a wrong argument that is noticed only after the runs."""
    with pytest.raises(error, match=message):
        reproduce(out=tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


def test_missing_matplotlib_is_noticed_before_any_run(tmp_path, monkeypatch):
    """Catches half an hour of runs that ends without figures."""
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'bouncy\[plots\]'"):
        reproduce("figure1", version="tiny", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "version"), [({}, "paper"), ({"quick": True}, "quick"), ({"version": "tiny"}, "tiny")]
)
def test_versions(tmp_path, monkeypatch, options, version):
    """Catches a quick run that is the full one, or the other way round."""
    import bouncy.experiments.report
    import bouncy.experiments.runner
    import bouncy.experiments.views

    asked = []
    monkeypatch.setattr(
        bouncy.experiments.runner, "measure", lambda settings, *rest: asked.append((settings, rest)) or []
    )
    monkeypatch.setattr(bouncy.experiments.views, "measure_views", lambda settings, *rest: settings)
    monkeypatch.setattr(bouncy.experiments.report, "write_report", lambda directory, results, views: None)
    reproduce("figure2", out=str(tmp_path), **options)
    ((settings, rest),) = asked
    assert (settings.figure, settings.version) == ("figure2", version)
    assert rest == (Path(tmp_path), 1711, None, None)
