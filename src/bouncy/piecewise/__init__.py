"""Continuous and mixed targets: potentials that are quadratic on each cell of an axis-aligned partition."""

from bouncy.piecewise.samplers.bps import BPS

__all__ = ["BPS"]
