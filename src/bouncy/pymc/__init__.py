"""PyMC: a step method for binary variables, the density of a model, and draws in the model's own variables.

Importing this package imports PyMC, which comes with the extra `pymc`.
"""

from __future__ import annotations

try:
    import pymc as _pymc  # noqa: F401
except ImportError as error:
    raise ImportError("bouncy.pymc needs PyMC: install it with  pip install 'bouncy[pymc]'") from error

from bouncy.pymc.binary import BouncyBinary
from bouncy.pymc.draws import to_model

__all__ = ["BouncyBinary", "to_model"]
