"""Exact answers, statistical tests that know their error rates, literal twins of the papers, and `check_target`."""

from bouncy.testing.check import check_target

__all__ = ["check_target"]
