"""`bouncy.Density.from_pymc`: the joint density of a PyMC model of continuous variables."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import pymc as pm
import pytensor
from numba import types
from numba.core.errors import NumbaError, NumbaWarning
from numba.core.registry import cpu_target
from numpy.typing import ArrayLike
from pymc.initial_point import make_initial_point_fn
from pymc.pytensorf import compile as compile_function
from pymc.pytensorf import join_nonshared_inputs
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.gradient import NullTypeGradError
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.type import RandomType

from bouncy.functions.binding import SlowTargetWarning, reason_of
from bouncy.piecewise.targets.density import Density, Initial
from bouncy.pymc.edges import Edges, read_edges
from bouncy.pymc.variables import Point, labels_of, raveled, require_continuous

# Far out, models overflow to NaN: log p that is NaN, or so low that its gradient may overflow, counts as -inf.
_LOWEST = -1e300
# PyTensor's message about an operation that its numba backend calls as Python.
_OBJECT_MODE = "Numba will use object mode"


def density_of(
    model: pm.Model,
    edges: Edges | None,
    walls: Sequence[tuple[ArrayLike, float]],
    convex: bool,
    initial: Initial | Mapping[str, ArrayLike] | None,
) -> ModelDensity:
    """Return the density of a model; see `Density.from_pymc`."""
    if not isinstance(model, pm.Model):
        raise TypeError(f"model must be a pymc.Model, got {type(model).__name__}")
    require_continuous(model)
    by_name = dict(initial) if isinstance(initial, Mapping) else {}
    point = make_initial_point_fn(model=model, overrides=by_name)(0)
    is_point = initial is None or isinstance(initial, Mapping)
    options = {
        "edges": read_edges(model, point, {} if edges is None else edges),
        "walls": walls,
        "convex": convex,
        "initial": raveled(model, point) if is_point else initial,
    }
    return ModelDensity(_joint(model, point), options)


class Joint(NamedTuple):
    """The joint density of a model as a graph of PyTensor, which owns its data."""

    y: Any  # vector of all value variables
    log_prob: Any  # scalar
    labels: tuple[str, ...]
    check_bounds: bool  # as of the model: whether impossible parameters have log p = -inf


class ModelDensity(Density):
    """The density of a PyMC model in its value variables.

    It is pickled as its graph, which is compiled again where it arrives: compiled functions of PyTensor cannot travel.
    """

    def __init__(self, joint: Joint, options: dict[str, Any]) -> None:
        self._recipe = joint, options
        functions = _compile(joint)
        super().__init__(
            len(joint.labels),
            functions.log_prob,
            functions.gradient,
            labels=joint.labels,
            compile=functions.can_be_compiled,
            **options,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._recipe


def _joint(model: pm.Model, point: Point) -> Joint:
    [log_prob], y = join_nonshared_inputs(point, [model.logp()], model.value_vars)
    variables = list(ancestors([log_prob]))
    if any(isinstance(variable.type, RandomType) for variable in variables):
        raise ValueError("log p of the model is itself random, as with pymc.Minibatch: use all of the data")
    # The density stays as it is when the data of the model are replaced.
    shared = [variable for variable in variables if isinstance(variable, SharedVariable)]
    frozen = {variable: variable.type.make_constant(variable.get_value(), name=variable.name) for variable in shared}
    return Joint(y, clone_replace(log_prob, frozen), labels_of(model, point), model.check_bounds)


# Functions


class _Functions(NamedTuple):
    log_prob: Callable[..., Any]
    gradient: Callable[..., Any] | None
    can_be_compiled: bool


class _NotCompiled(Exception):
    """PyTensor's numba backend does not compile a function, for the reason that is its message."""


def _compile(joint: Joint) -> _Functions:
    """Return functions that numba can call, or plain Python ones where PyTensor cannot compile the model for it."""
    gradient = _gradient(joint)
    try:
        of_gradient = None if gradient is None else _gradient_by_numba(_by_numba(joint, gradient))
        return _Functions(_log_prob_by_numba(_by_numba(joint, joint.log_prob)), of_gradient, True)
    except _NotCompiled as error:
        warnings.warn(
            "the log-density of the model is called as plain Python, at ten or more microseconds a call and from one "
            f"chain at a time, because PyTensor cannot compile it with numba: {error}",
            SlowTargetWarning,
            stacklevel=6,
        )
    of_gradient = None if gradient is None else _gradient_by_python(_by_python(joint, gradient))
    return _Functions(_log_prob_by_python(_by_python(joint, joint.log_prob)), of_gradient, False)


def _gradient(joint: Joint) -> Any:
    """Return the gradient of log p as a graph, or None where an operation has none."""
    try:
        return pytensor.grad(joint.log_prob, joint.y)
    except (NotImplementedError, NullTypeGradError):
        return None


def _function(joint: Joint, graph: Any, mode: str | None) -> Any:
    with pm.Model(check_bounds=joint.check_bounds, model=None):  # where PyMC looks for the flag
        return compile_function([joint.y], graph, mode=mode, trust_input=True)


def _by_numba(joint: Joint, graph: Any) -> Any:
    """Return a compiled function of y that returns a tuple of one array.

    Not with `fastmath`, which rounds otherwise in code that is new than in code from PyTensor's cache.
    """
    try:
        with warnings.catch_warnings(), pytensor.config.change_flags(numba__fastmath=False):
            warnings.filterwarnings("error", message=_OBJECT_MODE)
            warnings.simplefilter("ignore", NumbaWarning)  # about the speed of what PyTensor generates
            function = _function(joint, graph, "NUMBA").vm.jit_fn
            types.Dispatcher(function).get_call_type(cpu_target.typing_context, (types.float64[::1],), {})  # compiles
    except (NumbaError, NotImplementedError, AttributeError, UserWarning) as error:
        raise _NotCompiled(reason_of(error)) from error
    return function


# y is copied: PyTensor's functions, and what they are cached as, are for arrays that can be written to.


def _log_prob_by_numba(function: Any) -> Callable[..., Any]:
    def log_prob(y):
        value = function(y.copy())[0].item()
        return value if value > _LOWEST else -inf

    return log_prob


def _gradient_by_numba(function: Any) -> Callable[..., Any]:
    def gradient(y, out):
        out[:] = function(y.copy())[0]

    return gradient


def _by_python(joint: Joint, graph: Any) -> Callable[..., Any]:
    """Return a function that threads can call: PyTensor's own ones keep arguments and results in one place."""
    function, lock = _function(joint, graph, None), threading.Lock()

    def called(y: Any) -> Any:
        with lock:
            return function(y.copy())

    return called


def _log_prob_by_python(function: Callable[..., Any]) -> Callable[..., Any]:
    def log_prob(y: Any) -> float:
        value = float(function(y))
        return value if value > _LOWEST else -inf

    return log_prob


def _gradient_by_python(function: Callable[..., Any]) -> Callable[..., Any]:
    def gradient(y: Any, out: Any) -> None:
        out[:] = function(y)

    return gradient
