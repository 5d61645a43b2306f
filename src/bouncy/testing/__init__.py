"""What users need to test a target of their own: `check_target`, and an exact answer beyond enumeration."""

from bouncy.testing.check import check_target
from bouncy.testing.check_density import BadScaleWarning, UnnamedKinkWarning
from bouncy.testing.torus import kaufman_torus

__all__ = ["BadScaleWarning", "UnnamedKinkWarning", "check_target", "kaufman_torus"]
