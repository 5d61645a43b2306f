"""Effective sample size and R-hat against arviz-stats, and what happens to variables that never change."""

import numpy as np
import pytest

from bouncy.results.ess import effective_sample_size, is_constant, r_hat, rank_normalise

array_stats = pytest.importorskip("arviz_stats.base").array_stats


def _autocorrelated(rng: np.random.Generator, chains: int, draws: int, k: int, correlation: float) -> np.ndarray:
    x = np.empty((chains, draws, k))
    x[:, 0] = rng.normal(size=(chains, k))
    for t in range(1, draws):
        noise = rng.normal(size=(chains, k)) * np.sqrt(1 - correlation**2)
        x[:, t] = correlation * x[:, t - 1] + noise
    return x


@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.5, 0.95])
@pytest.mark.parametrize(("chains", "draws"), [(4, 1000), (2, 101), (1, 400), (3, 12)])
def test_spins_agree_with_arviz(rng, correlation, chains, draws):
    """Catches a slip in Geyer's sequence, in the splitting of chains or in the FFT."""
    spins = np.where(_autocorrelated(rng, chains, draws, 6, correlation) > 0.3, 1, -1).astype(np.int8)
    ours, rhat = effective_sample_size(spins), r_hat(spins)
    for k in range(6):
        if is_constant(spins[:, :, k : k + 1])[0]:
            continue
        x = spins[:, :, k].astype(float)
        np.testing.assert_allclose(ours[k], array_stats.ess(x, chain_axis=0, draw_axis=1, method="bulk"), rtol=2e-3)
        if chains == 1:
            continue  # there, the other one gives no R-hat
        np.testing.assert_allclose(rhat[k], array_stats.rhat(x, chain_axis=0, draw_axis=1, method="split"), rtol=1e-10)


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_unbounded_traces_agree_with_arviz(rng, correlation):
    """Catches a wrong rank normalisation, also with ties."""
    x = np.round(_autocorrelated(rng, 4, 500, 1, correlation)[:, :, 0] ** 3, 1)
    scores = rank_normalise(x)[:, :, None]
    expected = array_stats.ess(x, chain_axis=0, draw_axis=1, method="bulk")
    np.testing.assert_allclose(effective_sample_size(scores)[0], expected, rtol=2e-2)


def test_constant_variables_are_not_given_a_number():
    """Catches ESS = N for a frozen spin, which is what common tools report."""
    x = np.ones((2, 100, 3), np.int8)
    x[1, :, 1] = -1  # stuck at another value in each chain
    x[:, ::2, 2] = -1
    assert is_constant(x).tolist() == [True, False, False]
    assert np.isnan(effective_sample_size(x)[0])
    assert r_hat(x)[1] == np.inf
    assert effective_sample_size(x)[1] < 10
