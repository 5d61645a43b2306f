"""Does the comparison with other packages tell a right answer from a wrong one, and name what it leaves out?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bouncy
from conftest import base_seed

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
ROUNDS, CHAINS, DRAWS, SECONDS = 5, 16, 400, 0.5
MEAN = np.array([0.0, 0.3, -0.8])


@pytest.fixture(scope="module")
def peers() -> Iterator[Any]:
    """Return a package of modules that lie beside the benchmarks."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import peers.estimates
        import peers.protocol
        import peers.table

        yield peers
    finally:
        sys.path.remove(str(BENCHMARKS))


def _answers(shift: float = 0.0, energy: float = 0.0) -> list[dict[str, Any]]:
    """Return independent draws of spins and of a standard normal log p, the last spin and log p off by so much."""
    rng = np.random.default_rng(base_seed())
    up = (1.0 + MEAN + shift * np.array([0.0, 0.0, 1.0])) / 2.0
    draws = 2.0 * (rng.random((ROUNDS, CHAINS, DRAWS, 3)) < up) - 1.0
    log_prob = rng.normal(energy, 1.0, (ROUNDS, CHAINS, DRAWS))
    return [
        {"mean": s.mean(axis=1), "log_prob": value, "attempts": s.size, "seconds": SECONDS}
        for s, value in zip(draws, log_prob, strict=True)
    ]


def test_verdict(peers):
    """Catches a biased answer that is ranked: log p or one site off by more than their errors explain."""
    truth = peers.estimates.Truth(MEAN, 0.0, 1.0)
    verdict = lambda **bias: peers.estimates.verdict(peers.estimates.blocks(_answers(**bias)), truth)  # noqa: E731
    assert verdict() == ""
    assert verdict(energy=0.06).startswith("E[log p] off by +0.06")
    assert verdict(shift=0.05).startswith("E[s_i] off by +0.05")


def test_few_draws_of_many_sites(peers):
    """Catches a false alarm where the averages of a site agree by chance in all chains."""
    rng, d = np.random.default_rng(base_seed()), 20_000
    mean = rng.choice([-1.0, 1.0], (ROUNDS, 8, 2, d)).mean(axis=2)
    mean[..., 0] = 0.2
    answers = [{"mean": one, "attempts": 1, "seconds": SECONDS} for one in mean]
    assert peers.estimates.verdict(peers.estimates.blocks(answers), peers.estimates.Truth(np.zeros(d), 0.0, 1.0)) == ""


def test_uncertain_truth(peers):
    """Catches an answer that is called wrong because of the error of the reference."""
    truth = peers.estimates.Truth(MEAN, 0.0, 1.0, mean_se=np.full(3, 0.05), energy_se=0.05)
    assert peers.estimates.verdict(peers.estimates.blocks(_answers(0.05, 0.06)), truth) == ""


def test_effective_samples(peers):
    """Catches a wrong unit: independent draws are as many effective samples as there are draws.

    Of 80 squared errors the mean has a standard deviation of 0.16: a factor of two is six of them, 0.7 of a median.
    """
    rates = peers.estimates.rates(peers.estimates.blocks(_answers()), peers.estimates.Truth(MEAN, 0.0, 1.0))
    expected = CHAINS * DRAWS / SECONDS
    for name in ("energy", "mean", "slowest"):
        assert expected / 2.0 < rates[name].value < 2.0 * expected
    assert rates["attempts"].value == pytest.approx(3 * expected)


def test_stuck_chains(peers):
    """Catches chains that never move and count one effective sample in every round, not one in all."""
    answers = _answers()[:1] * ROUNDS
    for one in answers:
        one["log_prob"] = np.repeat(one["log_prob"][:, :1], DRAWS, axis=1)
    rates = peers.estimates.rates(peers.estimates.blocks(answers), peers.estimates.Truth(MEAN, 0.0, 1.0))
    assert rates["energy"].value < 3.0 * CHAINS / (ROUNDS * SECONDS)


def test_page_has_the_saved_figures(peers):
    """Catches tables in the documentation that were edited by hand, or are not those of the saved comparison."""
    page = (BENCHMARKS.parent / "docs" / "comparison.md").read_text()
    assert peers.table.with_tables(page, peers.table.load(BENCHMARKS / "results")) == page


def test_missing(peers, tmp_path, monkeypatch):
    """Catches a package that is left out without its reason: how to install it, or why that failed."""
    monkeypatch.setattr(peers.protocol, "ROOT", tmp_path)
    folder = tmp_path / ".venv-peer-nobody"
    assert peers.protocol.missing("nobody") == "not installed: `make .venv-peer-nobody/.ready`"
    folder.mkdir()
    (folder / "install.log").write_text("\nerror: no such package\nhint: none\n")
    assert peers.protocol.missing("nobody") == "does not install: error: no such package"
    (folder / ".ready").touch()
    assert peers.protocol.missing("nobody") is None


@pytest.mark.parametrize("d", [5, 40])
def test_summary(peers, d):
    """Catches log p of another model, with few couplings or with many, and arrays that change on their way."""
    target = bouncy.MRF.random(d, sigma_M=0.3, sigma_r=0.2, seed=base_seed())
    i, j = np.triu_indices(d, 1)
    model = {"pairs": np.stack([i, j], axis=1), "couplings": -target.M[i, j], "fields": -target.r}
    states = np.random.default_rng(base_seed()).choice(np.array([-1, 1], np.int8), (2, 3, d))
    found = peers.protocol.summary(model, states)
    assert found["log_prob"] == pytest.approx(target.log_prob(states.reshape(6, d)).reshape(2, 3))
    sent = peers.protocol._unpack(peers.protocol._pack(found["mean"]))
    assert sent.dtype == np.float32
    assert sent == pytest.approx(states.mean(axis=1))
