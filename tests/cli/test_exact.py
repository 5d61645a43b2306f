"""`bouncy exact`: the numbers of `bouncy.exact`, for people and for scripts."""

import json

import numpy as np
import pytest

import bouncy


def test_json_holds_the_numbers_of_the_function(invoke, small):
    """Catches keys that change, and numbers that lose digits or get the wrong name in JSON."""
    truth = bouncy.exact(small)
    result = invoke("exact", "small.json", "--json", "--pairs")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert list(content) == ["model", "labels", "mean", "log_z", "log_prob_mean", "log_prob_var", "pair_mean"]
    assert content["labels"] == ["a", "b", "c"]
    assert content["log_z"] == truth.log_z
    assert content["log_prob_var"] == truth.log_prob_var
    np.testing.assert_array_equal(content["mean"], truth.mean)
    np.testing.assert_array_equal(content["pair_mean"], truth.pair_mean)


def test_tables_show_means_and_pairs(invoke, small):
    """Catches a table whose rows are exchanged, and pairs that are left out or come unasked."""
    truth = bouncy.exact(small)
    lines = invoke("exact", "small.json", "--pairs").stdout.splitlines()
    rows = [line.split() for line in lines]
    assert lines[0] == "MRF(d=3, dense, 2 pairs): all 8 states"
    assert f"log Z = {truth.log_z:.10g}" in lines[1]
    assert ["b", f"{truth.mean[1]:+.6f}", f"{(1 + truth.mean[1]) / 2:.6f}"] in rows
    covariance = truth.pair_mean[0, 2] - truth.mean[0] * truth.mean[2]
    assert ["a", "c", f"{truth.pair_mean[0, 2]:+.6f}", f"{covariance:+.6f}"] in rows
    assert len(rows) == 2 + 2 + 3 + 2 + 3
    assert lines[:7] == invoke("exact", "small.json").stdout.splitlines()


def test_a_model_that_is_too_large_is_refused_with_advice(invoke, place):
    """Catches an enumeration that would take days, and advice in the words of the Python function."""
    bouncy.save_model(bouncy.MRF.ising((6, 6)), "large.npz")
    result = invoke("exact", "large.npz")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: exact visits all 2^d states and is limited to d <= 25")
    assert "use `bouncy sample`" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 1, "pass --vartype SPIN (-1/+1) or --vartype BINARY (0/1)"),
        (["--vartype", "SPN"], 2, "'SPN' is not one of 'SPIN', 'BINARY'. Did you mean 'SPIN'?"),
        (["--vartype", "SPIN", "--format", "jsn"], 2, "Did you mean 'json'?"),
        (["--vartype", "SPIN", "--temperature", "0"], 2, "expected a number above 0, got 0"),
        (["--vartype", "SPIN"], 0, "log Z = 1.820075192"),
    ],
)
def test_options_of_reading_reach_the_reader(invoke, place, options, code, message):
    """Catches a file that the library can read and the command line cannot."""
    (place / "pair.txt").write_text("0 1 -1.0\n")
    result = invoke("exact", "pair.txt", *([] if "--format" in options else ["--format", "coo"]), *options)
    assert result.exit_code == code, result.output
    assert message in result.stdout + result.stderr
