"""`bouncy logz`: log Z of a model file, for people and for scripts."""

import json

import bouncy


def test_log_z_is_that_of_enumeration(invoke, small):
    """Catches a command that prints another number than the library has, or another error."""
    truth = bouncy.exact(small).log_z
    result = invoke("logz", "small.json", "--json", "--seed", "1", "--until-se", "0.02")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    run = bouncy.sample(small, "tempered", until_se=0.02, se_of="log_z", keep="means", pairs="none", seed=1)
    assert (content["log_z"], content["log_z_se"]) == (run.log_z, run.log_z_se)
    assert abs(content["log_z"] - truth) < 6 * content["log_z_se"]
    assert content["log_z_se"] < 0.02
    assert content["ladder"]["b"] == list(run.sampler.ladder)
    assert len(content["best"]["state"]) == 3
    text = invoke("logz", "small.json", "--seed", "1", "--until-se", "0.02").stdout
    assert f"log Z = {run.log_z:.6g} +- {run.log_z_se:.2g}" in text
    assert "round trips" in text


def test_bad_options_are_refused(invoke, small):
    """Catches a bound of 0, which no run reaches, and one ladder alone, of which nothing can be compared."""
    assert "expected a number above 0" in invoke("logz", "small.json", "--until-se", "0").stderr
    assert invoke("logz", "small.json", "--chains", "1").exit_code == 2
