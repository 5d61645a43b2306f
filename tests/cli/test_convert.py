"""`bouncy convert`: the same model in another file, nothing overwritten, and losses reported."""

import numpy as np
import pytest

import bouncy


def test_formats_that_can_express_a_model_keep_all_of_it(invoke, small):
    """Catches a model that changes in conversion, and a loss reported where there is none."""
    result = invoke("convert", "small.json", "same.npz")
    assert result.exit_code == 0, result.output
    assert result.output == "same.npz: MRF(d=3, dense, 2 pairs)\n"
    same = bouncy.load_model("same.npz")
    assert same.labels == small.labels
    np.testing.assert_array_equal(same.M, small.M)


def test_losses_are_reported(invoke, small, place):
    """Catches labels, lattices, digits or an order of sites that are lost without a report."""
    assert invoke("convert", "small.json", "plain.uai").exit_code == 1
    labels = invoke("convert", "small.json", "plain.uai", "--renumber")
    assert "not kept: labels: 'a', 'b', 'c' come back as 0, 1, 2\n" in labels.stdout
    assert "not kept: the last digits: couplings and fields differ by up to " in labels.stdout
    bouncy.save_model(bouncy.MRF.ising((3, 3), field=0.25), "lattice.npz")
    lattice = invoke("convert", "lattice.npz", "lattice.coo")
    assert lattice.stdout.splitlines()[1:] == ["  not kept: the sides of the lattice", "  not kept: sparse storage"]
    bouncy.save_model(bouncy.MRF(small.M, small.r, labels=[2, 0, 1]), "order.npz")
    order = invoke("convert", "order.npz", "order.coo")
    assert order.stdout.splitlines()[1:] == ["  not kept: the order of sites: 2, 0, 1 come back as 0, 1, 2"]
    graph = bouncy.FactorGraph([((0, 1), np.array([[2.0, 1.0], [1.0, 2.0]]))], d=2)
    bouncy.save_model(graph, "graph.json")
    assert "not kept: the class: FactorGraph comes back as MRF\n" in invoke("convert", "graph.json", "g.uai").stdout


@pytest.mark.parametrize(
    ("out", "code", "message"),
    [
        ("there.npz", 1, "Error: there.npz exists; choose another name, or replace it with --force\n"),
        ("nowhere/new.npz", 1, "Error: cannot write nowhere/new.npz: there is no directory "),
        ("folder.npz", 1, "Error: cannot write folder.npz: it is a directory, and would have to be a file\n"),
        ("closed/new.npz", 1, "is not writable"),
        ("new.jsn", 2, "expected one of .coo, .json, .npz, .uai. Did you mean '.json'?"),
        ("new", 2, "whose suffix '' stands for nothing"),
    ],
)
def test_places_are_checked(invoke, small, place, monkeypatch, out, code, message):
    """Catches a file that is overwritten, or an error that does not say what to do."""
    (place / "there.npz").write_text("precious")
    (place / "folder.npz").mkdir()
    (place / "closed").mkdir()
    monkeypatch.setattr("os.access", lambda path, mode: "closed" not in str(path))
    result = invoke("convert", "small.json", out)
    assert result.exit_code == code
    assert message in result.stderr
    assert (place / "there.npz").read_text() == "precious"


def test_force_replaces(invoke, small, place):
    """Catches an option without effect."""
    (place / "there.npz").write_text("worthless")
    assert invoke("convert", "small.json", "there.npz", "--force").exit_code == 0
    assert bouncy.load_model("there.npz").d == 3
