"""The exact answers for slabs are those of enumeration."""

import numpy as np
import pytest

import bouncy
from helpers.slabs import slab


@pytest.mark.parametrize("couplings", ["signs", "gaussian"])
def test_slabs_equal_enumeration(couplings):
    """Catches a coupling that is lost or counted twice, and a spin that is read after another took its place."""
    small = slab(2, 4, 0.8, 3, couplings)
    exact = bouncy.exact(small.target)
    assert small.log_z == pytest.approx(exact.log_z, abs=1e-9)
    assert np.allclose(small.mean, exact.mean, atol=1e-9)
