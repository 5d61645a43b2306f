"""Continuous and mixed targets: potentials that are quadratic on each cell of an axis-aligned partition."""

from bouncy.piecewise.potential import Cells, Potential
from bouncy.piecewise.samplers.bps import BPS
from bouncy.piecewise.samplers.gibbs import Gibbs
from bouncy.piecewise.samplers.hmc import HMC
from bouncy.piecewise.samplers.metropolis import Metropolis

__all__ = ["BPS", "HMC", "Cells", "Gibbs", "Metropolis", "Potential"]
