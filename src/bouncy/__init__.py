"""bouncy: binary distributions sampled with the Binary Bouncy Particle Sampler."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bouncy._sample import resume, sample
    from bouncy.enumeration import Exact, exact, states
    from bouncy.formats.files import ModelFileError, load_model, save_model
    from bouncy.piecewise.contract import PiecewiseTarget
    from bouncy.piecewise.targets.bayesian_lasso import BayesianLasso
    from bouncy.piecewise.targets.gaussian import Gaussian
    from bouncy.piecewise.targets.mixed_binary_gaussian import MixedBinaryGaussian
    from bouncy.piecewise.targets.spike_slab import SpikeSlab
    from bouncy.piecewise.targets.truncated_gaussian import TruncatedGaussian
    from bouncy.results.inclusion import InclusionTable
    from bouncy.results.paths import PathRun
    from bouncy.results.run import Run
    from bouncy.results.spins import SpinRun
    from bouncy.results.summary import Summary
    from bouncy.run.endings import DisagreementWarning, InterruptedWarning, NoFlipWarning
    from bouncy.run.progress import Progress
    from bouncy.run.remote import WorkerError
    from bouncy.samplers.bps import BPS
    from bouncy.samplers.contract import NotErgodicWarning, PathSampler, Sampler, SpinSampler
    from bouncy.samplers.gibbs import Gibbs
    from bouncy.samplers.hmc import HMC
    from bouncy.samplers.metropolis import Metropolis
    from bouncy.storage.checkpoint import CheckpointError, CheckpointWarning
    from bouncy.storage.rows import SpillWarning
    from bouncy.storage.run_file import RunFileError
    from bouncy.targets._binding import SlowTargetWarning
    from bouncy.targets.contract import Target, TargetError
    from bouncy.targets.custom import Custom
    from bouncy.targets.factor_graph import FactorGraph
    from bouncy.targets.mrf import MRF
    from bouncy.targets.polynomial import Polynomial
    from bouncy.targets.rbm import RBM
    from bouncy.targets.variable_selection import VariableSelection
    from bouncy.workers.within import Within

__all__ = [
    "BPS",
    "HMC",
    "MRF",
    "RBM",
    "BayesianLasso",
    "CheckpointError",
    "CheckpointWarning",
    "Custom",
    "DisagreementWarning",
    "Exact",
    "FactorGraph",
    "Gaussian",
    "Gibbs",
    "InclusionTable",
    "InterruptedWarning",
    "Metropolis",
    "MixedBinaryGaussian",
    "ModelFileError",
    "NoFlipWarning",
    "NotErgodicWarning",
    "PathRun",
    "PathSampler",
    "PiecewiseTarget",
    "Polynomial",
    "Progress",
    "Run",
    "RunFileError",
    "Sampler",
    "SlowTargetWarning",
    "SpikeSlab",
    "SpillWarning",
    "SpinRun",
    "SpinSampler",
    "Summary",
    "Target",
    "TargetError",
    "TruncatedGaussian",
    "VariableSelection",
    "Within",
    "WorkerError",
    "__version__",
    "exact",
    "load_model",
    "resume",
    "sample",
    "save_model",
    "states",
]

_HOME = {
    "BPS": "bouncy.samplers.bps",
    "BayesianLasso": "bouncy.piecewise.targets.bayesian_lasso",
    "CheckpointError": "bouncy.storage.checkpoint",
    "CheckpointWarning": "bouncy.storage.checkpoint",
    "Custom": "bouncy.targets.custom",
    "DisagreementWarning": "bouncy.run.endings",
    "Exact": "bouncy.enumeration",
    "FactorGraph": "bouncy.targets.factor_graph",
    "Gaussian": "bouncy.piecewise.targets.gaussian",
    "Gibbs": "bouncy.samplers.gibbs",
    "HMC": "bouncy.samplers.hmc",
    "InclusionTable": "bouncy.results.inclusion",
    "InterruptedWarning": "bouncy.run.endings",
    "MRF": "bouncy.targets.mrf",
    "Metropolis": "bouncy.samplers.metropolis",
    "MixedBinaryGaussian": "bouncy.piecewise.targets.mixed_binary_gaussian",
    "ModelFileError": "bouncy.formats.files",
    "NoFlipWarning": "bouncy.run.endings",
    "NotErgodicWarning": "bouncy.samplers.contract",
    "PathRun": "bouncy.results.paths",
    "PathSampler": "bouncy.samplers.contract",
    "PiecewiseTarget": "bouncy.piecewise.contract",
    "Polynomial": "bouncy.targets.polynomial",
    "Progress": "bouncy.run.progress",
    "RBM": "bouncy.targets.rbm",
    "Run": "bouncy.results.run",
    "RunFileError": "bouncy.storage.run_file",
    "Sampler": "bouncy.samplers.contract",
    "SlowTargetWarning": "bouncy.targets._binding",
    "SpikeSlab": "bouncy.piecewise.targets.spike_slab",
    "SpillWarning": "bouncy.storage.rows",
    "SpinRun": "bouncy.results.spins",
    "SpinSampler": "bouncy.samplers.contract",
    "Summary": "bouncy.results.summary",
    "Target": "bouncy.targets.contract",
    "TargetError": "bouncy.targets.contract",
    "TruncatedGaussian": "bouncy.piecewise.targets.truncated_gaussian",
    "VariableSelection": "bouncy.targets.variable_selection",
    "Within": "bouncy.workers.within",
    "WorkerError": "bouncy.run.remote",
    "exact": "bouncy.enumeration",
    "load_model": "bouncy.formats.files",
    "resume": "bouncy._sample",
    "sample": "bouncy._sample",
    "save_model": "bouncy.formats.files",
    "states": "bouncy.enumeration",
}

_MODULES = ("conjugate", "experiments", "piecewise", "plots", "testing")


def __getattr__(name: str) -> Any:
    """Import a public name on first use: numba and scipy are not needed to ask for the version."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("bouncy")
        except PackageNotFoundError:  # a checkout that is not installed
            return "unknown"
    if name in _MODULES:
        return importlib.import_module(f"bouncy.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'bouncy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_MODULES]
