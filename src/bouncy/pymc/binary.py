"""`BouncyBinary`: binary variables of a PyMC model moved by bouncy, beside NUTS for the continuous ones."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from pymc.blocking import DictToArrayBijection, RaveledVars
from pymc.exceptions import SamplingError
from pymc.pytensorf import compile as compile_function
from pymc.pytensorf import inputvars, join_nonshared_inputs, make_shared_replacements
from pymc.step_methods.arraystep import ArrayStepShared
from pymc.step_methods.compound import Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_value_vars_from_user_vars
from pytensor.graph.fg import MissingInputError
from pytensor.tensor.random.basic import BernoulliRV, CategoricalRV

from bouncy._validation import check_count
from bouncy.samplers import as_sampler
from bouncy.samplers.contract import Sampler, SpinSampler
from bouncy.targets.contract import TargetError
from bouncy.targets.custom import Custom
from bouncy.workers.walker import Walker

Point = dict[str, NDArray[Any]]

# Longer arrays are abbreviated in error messages.
_SHOWN = 64


@dataclass_state
class BouncyBinaryState(StepMethodState):  # type: ignore[misc]
    """State of the step that PyMC saves: all that the rest of a chain depends on."""

    particle: list[NDArray[Any]] | None
    sampler: SpinSampler = field(metadata={"frozen": True})
    sweeps: int = field(metadata={"frozen": True})


class BouncyBinary(ArrayStepShared):  # type: ignore[misc]
    """PyMC step method that moves Bernoulli and two-category Categorical variables by a sampler of bouncy.

    All its variables together are one vector of d spins. A step runs the sampler's clock for some sweeps of d expected
    attempts to flip a spin each. It evaluates the log-probability of the model, only those terms that contain the
    variables, once at its beginning and once for each attempt.

    Parameters
    ----------
    vars : list
        Bernoulli variables, or Categorical ones with two categories, of any shapes.
    sampler : str or Sampler
        As in `bouncy.sample`: "bps-gaussian", "hmc", "gibbs", ..., or one such as `bouncy.BPS(refreshment=0.5)`.
    sweeps : int
        Sweeps per step.
    model : pymc.Model, optional
        By default, the model of the context.
    rng, initial_point, compile_kwargs, blocked
        As for PyMC's own step methods. `compile_kwargs={"mode": "NUMBA"}` makes small models faster.

    Notes
    -----
    The particle (distances z to the walls, speeds w and budget) continues from the last step, although NUTS has
    meanwhile changed the distribution of the spins, p(s | others). The joint law stays exact: under the target the
    particle is independent of s and of the others, and its law does not depend on p, as the clock does not see p and
    the rest of an Exp(1) budget after a payment is again Exp(1). A step preserves p(s | others) times that law;
    steps of other methods preserve p(others | s) and do not see the particle.

    Statistics of each step are `hits` (attempted flips), `flips`, and `accept`, their ratio, NaN without any attempt.

    Importing this module changes nothing in PyMC. To have the step assigned to binary variables automatically, put it
    before PyMC's own, which are equally competent: `pymc.step_methods.STEP_METHODS.insert(0, BouncyBinary)`.

    A log-probability of NaN or +inf is an error, not a refusal as in PyMC's Metropolis methods.

    Examples
    --------
    .. code-block:: python

        with pm.Model():
            included = pm.Bernoulli("included", 0.2, shape=X.shape[1])
            slope = pm.Normal("slope", 0.0, 1.0, shape=X.shape[1])
            pm.Normal("y", pm.math.dot(X, included * slope), 1.0, observed=y)
            trace = pm.sample(step=[BouncyBinary([included])])
    """

    name = "bouncy_binary"
    stats_dtypes_shapes: ClassVar[dict[str, tuple[type, list[int]]]] = {
        "accept": (np.float64, []),
        "hits": (np.int64, []),
        "flips": (np.int64, []),
    }
    _state_class = BouncyBinaryState
    _walker: Walker | None

    def __init__(
        self,
        vars: Any,
        *,
        sampler: str | Sampler = "bps-gaussian",
        sweeps: int = 1,
        model: Any = None,
        rng: Any = None,
        initial_point: Point | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        self.sweeps = check_count("sweeps", sweeps)
        model = pm.modelcontext(model)
        point = model.initial_point() if initial_point is None else initial_point
        value_vars = _binary_value_vars(vars, model, point)
        shared = make_shared_replacements(point, value_vars, model)
        super().__init__(value_vars, shared, blocked=blocked, rng=rng)
        self._log_prob = _LogProb(model, value_vars, shared, point, compile_kwargs or {})
        self.sampler = as_sampler(self._new_target(), sampler)
        self._compile(_as_spins(DictToArrayBijection.map({var.name: point[var.name] for var in value_vars}).data))

    def astep(self, q0: Any) -> tuple[Any, list[dict[str, Any]]]:
        """Move the variables for some sweeps; return them and the statistics of the step."""
        if self._walker is None:
            self._walker = self._new_walker(_draw_seed(self.rng))
        spins = _as_spins(q0.data)
        hits, flips = self._advance(spins, q0.point_map_info)
        accept = flips / hits if hits else np.nan
        values = RaveledVars(_as_values(spins, q0.data.dtype), q0.point_map_info)
        return values, [{"accept": accept, "hits": hits, "flips": flips}]

    def _advance(self, spins: NDArray[np.int8], point_map_info: Any) -> tuple[int, int]:
        """Move spins in place and return the numbers of hits and flips; errors name the variables of the model."""
        assert self._walker is not None
        try:
            return self._walker.advance(spins, self.sweeps)
        except TargetError as caught:
            failure = caught
        # Outside of the handler, so that an interrupt or an error of PyTensor is raised without a context.
        if failure.__cause__ is not None:
            raise failure.__cause__
        value = self._log_prob(failure.state)
        remedy = "start from possible values" if value < 0 else "expected a number, or -inf for impossible values"
        raise SamplingError(
            f"the log-probability of the model is {value} at {_shown(failure.state, point_map_info)}: {remedy}"
        )

    @property
    def rng(self) -> np.random.Generator:
        """Generator of the chain. PyMC sets it once per chain, which discards the particle of the previous chain."""
        return self._rng

    @rng.setter
    def rng(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._walker = None

    @property
    def particle(self) -> list[NDArray[Any]] | None:
        """Copy of the state of clock and toll, or None before the first step of a chain."""
        return None if self._walker is None else self._walker.state()

    @particle.setter
    def particle(self, state: list[NDArray[Any]] | None) -> None:
        self._walker = None
        if state is not None:
            self._walker = self._new_walker(np.random.SeedSequence(0))
            self._walker.restore(state)

    def _compile(self, spins: NDArray[np.int8]) -> None:
        """Compile everything before PyMC forks: forks that compile may give different code the same name."""
        self._log_prob(spins)
        self._new_walker(np.random.SeedSequence(0)).compile(spins)

    def _new_walker(self, seed: np.random.SeedSequence) -> Walker:
        return Walker(self._new_target(), self.sampler, seed)

    def _new_target(self) -> Custom:
        return Custom(self._log_prob.d, log_prob=self._log_prob, compile=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle: with the particle, without machine addresses."""
        return {**self.__dict__, "_walker": None, "particle": self.particle}

    def __setstate__(self, state: dict[str, Any]) -> None:
        particle = state.pop("particle")
        self.__dict__.update(state)
        self.particle = particle

    @staticmethod
    def competence(var: Any, has_grad: bool | None = None) -> Any:
        """Return IDEAL for Bernoulli variables and for Categorical ones that are known to have two categories."""
        is_binary = _is_bernoulli(var) or (_is_categorical(var) and _categories(var) == 2)
        return Competence.IDEAL if is_binary else Competence.INCOMPATIBLE


class _LogProb:
    """log p(s | others) of the model up to a constant, as a function of spins; the others are shared variables.

    Terms of the model without these variables are left out: they are constant while the spins move.
    """

    def __init__(
        self, model: Any, value_vars: list[Any], shared: dict[Any, Any], point: Point, compile_kwargs: dict[str, Any]
    ) -> None:
        factors = [*model.basic_RVs, *model.potentials]
        terms = model.logp(vars=factors, sum=False)
        entered = [f for f, term in zip(factors, terms, strict=True) if set(inputvars(term)) & set(value_vars)]
        [logp], x = join_nonshared_inputs(point, [model.logp(vars=entered)], value_vars, shared)
        self._function = compile_function([x], logp, **compile_kwargs)
        self._function.trust_input = True
        self.d = sum(point[var.name].size for var in value_vars)
        self._x = np.zeros(self.d, x.dtype)

    def __call__(self, s: NDArray[np.int8]) -> float:
        np.greater(s, 0, out=self._x)
        return float(self._function(self._x))


def _draw_seed(rng: np.random.Generator) -> np.random.SeedSequence:
    return np.random.SeedSequence(rng.integers(2**63, size=4).tolist())


def _as_spins(values: NDArray[Any]) -> NDArray[np.int8]:
    """Return spins -1/+1 for 0/1."""
    return np.where(values > 0, 1, -1).astype(np.int8)


def _as_values(spins: NDArray[np.int8], dtype: Any) -> NDArray[Any]:
    """Return 0/1 for spins -1/+1."""
    return (spins > 0).astype(dtype)


def _shown(spins: NDArray[np.int8], point_map_info: Any) -> str:
    """Return the values of the variables as text such as `a = [0 1], b = 1`."""
    point = DictToArrayBijection.rmap(RaveledVars(_as_values(spins, np.int8), point_map_info))
    return ", ".join(f"{name} = {np.array2string(value, threshold=_SHOWN)}" for name, value in point.items())


# Checks that variables are binary


def _binary_value_vars(vars: Any, model: Any, point: Point) -> list[Any]:
    """Return the value variables of binary variables, or raise.

    They come in the order of the model, in which PyMC ravels a point when there are no other variables.
    """
    chosen = get_value_vars_from_user_vars(vars, model)
    for var in chosen:
        _require_binary(model.values_to_rvs[var])
    value_vars = [var for var in model.value_vars if var in chosen]
    if not any(point[var.name].size for var in value_vars):
        raise ValueError(f"BouncyBinary needs at least one entry to move, but there is none in {_names(value_vars)}")
    return value_vars


def _require_binary(rv: Any) -> None:
    expected = "BouncyBinary moves Bernoulli variables and Categorical ones with two categories"
    remedy = "leave it to another step method"
    if _is_categorical(rv):
        categories = _categories(rv)
        if categories is None:
            raise ValueError(f"{expected}; how many {rv.name} has depends on other variables: {remedy}")
        if categories != 2:
            raise ValueError(f"{expected}, but {rv.name} has {categories}: {remedy}")
    elif not _is_bernoulli(rv):
        raise ValueError(f"{expected}, but {rv.name} is {_distribution(rv)}: {remedy}")


def _is_bernoulli(rv: Any) -> bool:
    return isinstance(_op(rv), BernoulliRV)


def _is_categorical(rv: Any) -> bool:
    return isinstance(_op(rv), CategoricalRV)


def _categories(rv: Any) -> int | None:
    """Return the number of categories of a Categorical variable, or None where it is not known before sampling."""
    probabilities = rv.owner.inputs[-1]
    static: int | None = probabilities.type.shape[-1]
    if static is not None:
        return static
    try:
        return int(probabilities.shape[-1].eval(mode="FAST_COMPILE"))
    except MissingInputError:
        return None


def _distribution(rv: Any) -> str:
    return type(_op(rv)).__name__.removesuffix("RV")


def _op(rv: Any) -> Any:
    return getattr(rv.owner, "op", None)


def _names(value_vars: list[Any]) -> str:
    return ", ".join(var.name for var in value_vars)
