"""Standard errors from batches against closed forms."""

import numpy as np
import pytest
from scipy import stats

from bouncy.results.batches import normal_score, student_quantile
from bouncy.results.moments import Sums


def _quantity(batch):
    return batch["x"]


def _sums(closed, rest, steps, length):
    """Return sums over closed batches, (chain, batch, k), and over the open ones, (chain, k)."""
    return Sums([[{"x": row} for row in chain] for chain in closed], [{"x": row} for row in rest], steps, length)


def test_mean_uses_everything_and_error_uses_full_batches(rng):
    """Catches a forgotten last partial batch and an error bar that is not scaled to the whole run."""
    closed, rest = rng.normal(size=(3, 5, 2)), rng.normal(size=(3, 2))
    sums = _sums(closed, rest, steps=27, length=5)
    np.testing.assert_allclose(sums.mean(_quantity, 2.0), (closed.sum((0, 1)) + rest.sum(0)) / 162.0)
    spread = (closed / 10.0).reshape(15, 2).std(axis=0, ddof=1)
    np.testing.assert_allclose(sums.error(_quantity, 2.0), spread / np.sqrt(16.2))
    assert sums.degrees_of_freedom == 14


def test_coarser_batches_are_sums_of_batches(rng):
    """Catches a batch that is left out of the mean, or counted in two errors, where batches are added up."""
    closed, rest = rng.normal(size=(2, 7, 3)), rng.normal(size=(2, 3))
    sums = _sums(closed, rest, steps=37, length=5)
    coarse = sums.coarser(steps=6.0, fewest=6)
    assert (coarse.length, coarse.batches, coarse.degrees_of_freedom) == (10, 3, 5)
    assert sums.coarser(steps=1e9, fewest=6) == coarse
    np.testing.assert_allclose(coarse.mean(_quantity, 1.0), sums.mean(_quantity, 1.0))
    pairs = (closed[:, 0:6:2] + closed[:, 1:6:2]).reshape(6, 3) / 10.0
    np.testing.assert_allclose(coarse.error(_quantity, 1.0), pairs.std(axis=0, ddof=1) / np.sqrt(7.4))


def test_too_few_batches_give_no_error_bar():
    """Catches an error bar of zero from a single batch."""
    sums = _sums(np.ones((1, 1, 2)), np.zeros((1, 2)), steps=1, length=1)
    assert np.isnan(sums.error(_quantity, 1.0)).all()


def test_disagreement_is_an_analysis_of_variance(rng):
    """Catches a test whose groups are not the chains, or that counts the open batch."""
    closed = rng.normal(size=(3, 5, 2)) + np.arange(3)[:, None, None] * [0.5, 0.0]
    found = _sums(closed, np.full((3, 2), 1e9), steps=12, length=2).disagreement(_quantity)
    np.testing.assert_allclose(found, stats.f_oneway(*closed).pvalue, rtol=1e-9)


def test_quantile_is_students():
    """Catches a normal quantile where Student's is due: 15 batches make it 9 % wider."""
    np.testing.assert_allclose(student_quantile(0.95, 14), stats.t.ppf(0.975, 14))
    with pytest.raises(ValueError, match="between 0 and 1"):
        student_quantile(95, 14)


def test_normal_score_keeps_the_tail_probability():
    """Catches a score that overflows or loses its sign far out in the tail."""
    t = np.array([-30.0, -2.0, 0.0, 2.0, 30.0])
    score = normal_score(t, 7)
    np.testing.assert_allclose(stats.norm.logsf(np.abs(score)), stats.t.logsf(np.abs(t), 7), rtol=1e-9)
    assert (np.sign(score) == np.sign(t)).all()
