"""A notebook as a person meets it: progress in place, pictures and tables, and nothing left behind."""

import nbclient
import pytest
from nbformat.v4 import new_code_cell, new_notebook

CELLS = [
    """
    import sys
    sys.modules["ipywidgets"] = None  # as where it is not installed
    import bouncy
    import bouncy.run.progress as progress
    progress._SHORT = 0.0
    target = bouncy.MRF.random(5, seed=0)
    target
    """,
    "run = bouncy.sample(target, seconds=0.6, keep='means', chains=1, seed=0)\nrun",
    "progress._SHORT = 60.0\nshort = run.extend(draws=10)",
    "run.summary()",
    "run.plot()",
]


class Client(nbclient.NotebookClient):
    """Runs a notebook, and keeps what its cells have shown and replaced."""

    def process_message(self, message, cell, cell_index):
        if message["msg_type"] in ("display_data", "update_display_data"):
            self.shown.append(message["content"]["data"]["text/plain"])
        return super().process_message(message, cell, cell_index)


@pytest.fixture(scope="module")
def executed():
    """Return the outputs of all cells, and what was shown while they ran."""
    notebook = new_notebook(cells=[new_code_cell("\n".join(map(str.strip, cell.splitlines()))) for cell in CELLS])
    client = Client(notebook, timeout=300)
    client.shown = []
    client.execute()
    return [cell.outputs for cell in notebook.cells], client.shown


def test_progress_is_shown_in_place(executed):
    """Catches a notebook in which nothing moves, and one with a line for every report."""
    outputs, shown = executed
    bars = [text for text in shown if "sampling" in text]
    assert len(bars) > 2
    assert all("\n  chain 0 " in text and "%|" in text for text in bars)
    assert shown[-1] == ""
    *screens, result = outputs[1]
    assert len(screens) <= 2  # one for the run, and one if something was compiled
    assert all(screen.data["text/html"] == "" for screen in screens)
    assert result.output_type == "execute_result"


def test_nothing_is_written_beside_the_results(executed):
    """Catches a warning about a missing package, and a short run that leaves an empty line."""
    outputs, _ = executed
    assert not [output for cell in outputs for output in cell if output.output_type == "stream"]
    assert outputs[2] == []


def test_results_are_shown_as_html_and_pictures(executed):
    """Catches a result that a notebook shows as text, and a figure that it shows twice."""
    outputs, _ = executed
    for k, sign in ((0, "<img"), (1, "<svg"), (3, "<table>")):
        assert sign in outputs[k][-1].data["text/html"]
    (picture,) = outputs[4]
    assert len(picture.data["image/png"]) > 10_000
