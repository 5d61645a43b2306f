"""A sampler as one block of a Gibbs scheme: what it samples depends on parameters that other steps update."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._dispatch import check_range
from bouncy._fingerprint import rounded
from bouncy._memory import read_only
from bouncy._samplable import RunType, Samplable
from bouncy._validation import check_count, check_real_array
from bouncy.recorders.batches import Batch
from bouncy.recorders.controls import without_couplings
from bouncy.workers.contract import Keep, Plan, Rows, Slice, State, Worker, check_like, joined

# How rows of parameters are told from others.
PARAMETER = "parameter."
_WORD = 2**64 - 1

Update = Callable[[NDArray[Any], Mapping[str, Any], np.random.Generator], Any]


class Within(Samplable[RunType]):
    """A Gibbs scheme in which one of our samplers moves a block x and functions of yours move everything else.

    In turn, x is moved for some sweeps given the parameters, and each parameter is drawn from its conditional
    distribution given x and the others. The sampler keeps its state (where its particle is, how fast it flies, what is
    left of its budgets) from one visit to the next.

    Parameters
    ----------
    build : callable
        `build(**parameters)` returns the target of x given the parameters: any target, always of the same kind and
        size. For a continuous one the cells must stay what they are, as they do with the method `given` of
        `bouncy.SpikeSlab` and `bouncy.BayesianLasso`; the potential on them may change.
    updates : mapping
        Names of parameters to functions `update(x, parameters, generator)` that return a new value, of the shape of the
        initial one. x, (d,), is the present state of the block (spins, or values), `parameters` holds the present
        values, `generator` is a `numpy.random.Generator` that belongs to the chain. `bouncy.conjugate` has some.
    initial : mapping
        Where the parameters start: a number or an array for each of them.
    sweeps : int
        Sweeps of the block from one update of the parameters to the next.

    Notes
    -----
    At stationarity the velocity and the budgets of a particle are independent of where it is, with a law that does not
    depend on the target. A visit preserves p(x | parameters) times that law, and an update, which sees neither,
    preserves p(parameters | x). So both preserve the joint distribution, and nothing has to be drawn anew at a visit.

    Examples
    --------
    The scale of a normal variable, with a conjugate prior:

    >>> import numpy as np, bouncy
    >>> def build(scale):
    ...     return bouncy.Gaussian([0.0, 0.0], cov=scale**2 * np.eye(2))
    >>> def update(x, parameters, generator):  # scale^2 ~ InverseGamma(3, 2)
    ...     return np.sqrt((2.0 + x @ x / 2) / generator.gamma(3 + x.size / 2))
    >>> run = bouncy.sample(bouncy.Within(build, {"scale": update}, {"scale": 1.0}), draws=200, seed=0)
    >>> run.parameters["scale"].shape
    (4, 200)
    """

    def __init__(
        self,
        build: Callable[..., Samplable[RunType]],
        updates: Mapping[str, Update],
        initial: Mapping[str, Any],
        *,
        sweeps: int = 1,
    ) -> None:
        if not callable(build):
            raise TypeError(f"build must be a function that returns a target, got {build!r:.60}")
        self.build = build
        self._updates = _check_updates(updates)
        self._initial = {name: check_real_array(f"initial[{name!r}]", value) for name, value in initial.items()}
        missing = self.updates.keys() - self.initial.keys()
        if missing:
            raise ValueError(f"initial has no value for {', '.join(sorted(missing))}, which updates change")
        self.sweeps = check_count("sweeps", sweeps)
        self.first = self.target_of(self.initial)
        self.selects_variables = self.first.selects_variables
        self.d, self._labels, self.kind = self.first.d, self.first._labels, self.first.kind  # type: ignore[misc]

    @property
    def updates(self) -> Mapping[str, Update]:
        """Functions that move the parameters, by name."""
        return MappingProxyType(self._updates)

    @property
    def initial(self) -> Mapping[str, NDArray[Any]]:
        """Where the parameters start, read-only."""
        return MappingProxyType({name: read_only(value) for name, value in self._initial.items()})

    def target_of(self, values: Mapping[str, NDArray[Any]]) -> Any:
        """Return the target of the block given values of the parameters."""
        target = self.build(**{name: _plain(value) for name, value in values.items()})
        if not isinstance(target, Samplable) or isinstance(target, Within):
            raise TypeError(f"build must return a bouncy target, got {type(target).__name__}")
        return target

    @property
    def sampled(self) -> Any:
        return self.first

    def check_states(self, name: str, states: ArrayLike) -> NDArray[Any]:
        found: NDArray[Any] = self.first.check_states(name, states)
        return found

    def description(self) -> dict[str, Any]:
        """Return the description of the first target, with names and initial values of the parameters."""
        values = {name: rounded(value.ravel()) for name, value in self.initial.items()}
        return {"within": self.first.description(), "parameters": values, "sweeps": self.sweeps}

    def workers(
        self, sampler: Any, plan: Plan, seeds: Sequence[np.random.SeedSequence], starts: Sequence[Any]
    ) -> list[Worker]:
        children = [seed.spawn(2) for seed in seeds]
        blocks = self.first.workers(sampler, plan, [seed for seed, _ in children], starts)
        return [BlockWorker(self, block, seed) for block, (_, seed) in zip(blocks, children, strict=True)]

    def _couplings(self) -> tuple[str, Any] | None:
        found: tuple[str, Any] | None = self.first._couplings()
        return found

    def __repr__(self) -> str:
        return f"{self.first!r} within {', '.join(self.updates)}"


class BlockWorker(Worker):
    """A worker that moves one block of a scheme, and draws the parameters in turn with it.

    Parameters
    ----------
    scheme : Within
        What is updated, and how.
    block : Worker
        The worker that moves x, of one chain.
    seed : SeedSequence
        Source of the randomness of the updates.
    """

    def __init__(self, scheme: Within[Any], block: Any, seed: np.random.SeedSequence) -> None:
        super().__init__(block.first, block.plan, block.sweep_time)
        self._scheme, self._block = scheme, block
        self._values = {name: value.copy() for name, value in scheme.initial.items()}
        self._generator = np.random.Generator(np.random.PCG64(seed))

    @property
    def x(self) -> NDArray[Any]:
        found: NDArray[Any] = self._block.x
        return found

    def compile(self, what: str = "nothing") -> None:
        self._block.compile(what)

    def advance(self, sweeps: int, keep: Keep = Keep()) -> Slice:  # noqa: B008
        """Run for some sweeps, with updates of the parameters between them, and return what was recorded."""
        cpu, clock, every = time.thread_time(), time.perf_counter(), self._scheme.sweeps
        slices, end = [], self.sweeps + sweeps
        while self.sweeps < end:
            found = self._block.advance(min(every - self.sweeps % every, end - self.sweeps), keep)
            self.sweeps = self._block.sweeps
            slices.append(found._replace(rows=[found.rows[0] | self._parameter_rows(keep, found.rows[0])]))
            if self.sweeps % every == 0:
                self._update()
        cpu = time.thread_time() - cpu
        self.cpu_seconds += cpu
        return joined(slices)._replace(cpu_seconds=cpu, seconds=time.perf_counter() - clock)

    def _parameter_rows(self, keep: Keep, rows: Rows) -> Rows:
        """Return the present parameters, once for each of some draws."""
        if keep.what == "nothing":
            return {}
        draws = len(rows["log_prob"])
        values = {PARAMETER + name: self._values[name] for name in self._scheme.updates}
        return {name: np.broadcast_to(value, (draws, *value.shape)) for name, value in values.items()}

    def _update(self) -> None:
        """Draw the parameters, and have the block go on given the new ones."""
        for name, update in self._scheme.updates.items():
            present = MappingProxyType({key: _plain(value) for key, value in self._values.items()})
            try:
                value = check_real_array(
                    f"what updates[{name!r}] returned", update(self.x[0], present, self._generator)
                )
                if value.shape != self._values[name].shape:
                    raise ValueError(
                        f"updates[{name!r}] returned an array of shape {value.shape}; expected "
                        f"{self._values[name].shape}, as of its initial value"
                    )
            except Exception as error:
                error.add_note(f"This was the update of {name!r} in chain {self.first}.")
                raise
            self._values[name] = value
        self._block.retarget(self._scheme.target_of(self._values))

    def stop(self) -> None:
        self._block.stop()

    def empty_rows(self, what: str) -> Rows:
        rows: Rows = self._block.empty_rows(what)
        return rows | self._parameter_rows(Keep(what), rows)

    def open_sums(self) -> list[Batch]:
        sums: list[Batch] = self._block.open_sums()
        return sums

    def mean_weight(self, batch: Batch, sweeps: int) -> float:
        weight: float = self._block.mean_weight(batch, sweeps)
        return weight

    def totals(self) -> list[dict[str, NDArray[Any]]]:
        totals: list[dict[str, NDArray[Any]]] = self._block.totals()
        return totals

    def constants(self) -> dict[str, NDArray[Any]]:
        constants: dict[str, NDArray[Any]] = self._block.constants()
        return without_couplings(constants)  # which change with the parameters

    @classmethod
    def record_anew(cls, workers: Sequence[Self]) -> None:
        blocks = [worker._block for worker in workers]
        type(blocks[0]).record_anew(blocks)
        for worker in workers:
            worker.begun = worker.sweeps

    def state(self, copy: bool = True) -> State:
        own = {f"value.{k}": value.copy() for k, value in enumerate(self._values.values())}
        block = {f"block.{name}": array for name, array in self._block.state(copy).items()}
        return own | block | {"cpu_seconds": np.array(self.cpu_seconds), "generator": _to_words(self._generator)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        check_like(state, self.state())
        values = {name: state[f"value.{k}"].copy() for k, name in enumerate(self._values)}
        for name, value in values.items():
            check_range(f"the parameter {name}", value)
        check_range("cpu_seconds", state["cpu_seconds"], 0.0)
        check_range("generator", state["generator"], 0, [_WORD, _WORD, _WORD, _WORD, 1, 2**32 - 1])
        self._values, self.cpu_seconds = values, float(state["cpu_seconds"])
        _from_words(self._generator, state["generator"])
        # The target first: it must not move what is then put back.
        try:
            target = self._scheme.target_of(self._values)
        except ArithmeticError as error:
            raise ValueError(
                f"the parameters must be such that the target can be built, which raised {error!r}"
            ) from error
        self._block.retarget(target)
        self._block.restore({name: state[f"block.{name}"] for name in self._block.state()})
        self.sweeps, self.begun = self._block.sweeps, self._block.begun


def _to_words(generator: np.random.Generator) -> NDArray[np.uint64]:
    """Return the state of a PCG64 generator as numbers of 64 bits, shape (6,)."""
    state = generator.bit_generator.state
    wide = [state["state"]["state"], state["state"]["inc"]]
    words = [part for value in wide for part in (value >> 64, value & _WORD)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], np.uint64)


def _from_words(generator: np.random.Generator, words: NDArray[np.uint64]) -> None:
    """Put a generator into the state that `_to_words` returned."""
    high, low, inc_high, inc_low, has_uint32, uinteger = map(int, words)
    if inc_low % 2 == 0:
        raise ValueError("the increment of a random generator must be odd")
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": high << 64 | low, "inc": inc_high << 64 | inc_low},
        "has_uint32": has_uint32,
        "uinteger": uinteger,
    }


def _plain(value: NDArray[Any]) -> Any:
    """Return a number as a number, and an array as one that cannot be changed."""
    if value.ndim == 0:
        return float(value)
    value = value.view()
    value.flags.writeable = False
    return value


def _check_updates(updates: Mapping[str, Update]) -> dict[str, Update]:
    if not isinstance(updates, Mapping) or not updates:
        raise TypeError(f"updates must map names of parameters to functions, got {updates!r:.60}")
    for name, update in updates.items():
        if not callable(update):
            raise TypeError(f"updates[{name!r}] must be a function of (x, parameters, generator), got {update!r:.60}")
    return dict(updates)
