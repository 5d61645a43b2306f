"""A sampler as one block of a Gibbs scheme: what it samples depends on parameters that other steps update."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._samplable import RunType, Samplable
from bouncy._validation import check_count, check_real_array
from bouncy.recorders.recorder import DRAWN
from bouncy.run.contract import AnyChain, Rows, check_like

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
        self.updates = _check_updates(updates)
        self.initial = {name: check_real_array(f"initial[{name!r}]", value) for name, value in initial.items()}
        missing = self.updates.keys() - self.initial.keys()
        if missing:
            raise ValueError(f"initial has no value for {', '.join(sorted(missing))}, which updates change")
        self.sweeps = check_count("sweeps", sweeps)
        self.first = self.target_of(self.initial)
        self.d, self._labels = self.first.d, self.first._labels

    def target_of(self, values: Mapping[str, NDArray[Any]]) -> Any:
        """Return the target of the block given values of the parameters."""
        target = self.build(**{name: _plain(value) for name, value in values.items()})
        if not isinstance(target, Samplable) or isinstance(target, Within):
            raise TypeError(f"build must return a bouncy target, got {type(target).__name__}")
        return target

    def __repr__(self) -> str:
        return f"{self.first!r} within {', '.join(self.updates)}"


class BlockChain(AnyChain):
    """A chain of a scheme: a chain on the block, and the parameters.

    Parameters
    ----------
    scheme : Within
        What is updated, and how.
    block : AnyChain
        The chain that moves x.
    seed : SeedSequence
        Source of the randomness of the updates.
    """

    def __init__(self, scheme: Within[Any], block: Any, seed: np.random.SeedSequence) -> None:
        super().__init__(block.number)
        self._scheme = scheme
        self._block = block
        self._values = {name: value.copy() for name, value in scheme.initial.items()}
        self._generator = np.random.Generator(np.random.PCG64(seed))
        self._traces: dict[str, NDArray[Any]] = {}
        self.sweep_time, self.mean_per_sweep = block.sweep_time, block.mean_per_sweep

    @property
    def recorder(self) -> Any:
        return self._block.recorder

    @recorder.setter
    def recorder(self, recorder: Any) -> None:
        self._block.recorder = recorder

    @property
    def keeps(self) -> str:
        return str(self._block.keeps)

    @keeps.setter
    def keeps(self, keeps: str) -> None:
        if "_block" in self.__dict__:  # it is not there yet while the base class sets its default
            self._block.keeps = keeps

    def __getattr__(self, name: str) -> Any:
        """Have everything else of the chain on the block."""
        if name == "_block":  # not there yet, while a copy is made
            raise AttributeError(name)
        return getattr(self._block, name)

    def compile(self) -> None:
        self._block.compile()

    def advance(self, sweeps: int) -> None:
        before, every = time.thread_time(), self._scheme.sweeps
        end = self._block.sweeps + sweeps
        while self._block.sweeps < end:
            drawn = int(self.recorder.tally[DRAWN])
            self._block.advance(min(every - self._block.sweeps % every, end - self._block.sweeps))
            for name, trace in self._traces.items():
                trace[drawn : self.recorder.tally[DRAWN]] = self._values[name]
            if self._block.sweeps % every == 0:
                self._update()
        self.timed(before, sweeps)

    def _update(self) -> None:
        """Draw the parameters, and have the block go on given the new ones."""
        for name, update in self._scheme.updates.items():
            present = MappingProxyType({key: _plain(value) for key, value in self._values.items()})
            try:
                value = check_real_array(f"what updates[{name!r}] returned", update(self.x, present, self._generator))
                if value.shape != self._values[name].shape:
                    raise ValueError(
                        f"updates[{name!r}] returned an array of shape {value.shape}; expected "
                        f"{self._values[name].shape}, as of its initial value"
                    )
            except Exception as error:
                error.add_note(f"This was the update of {name!r} in chain {self.number}.")
                raise
            self._values[name] = value
        self._block.retarget(self._scheme.target_of(self._values))

    def stop(self) -> None:
        self._block.stop()

    def write_open_batch(self) -> None:
        self._block.write_open_batch()

    def new_rows(self, draws: int) -> Rows:
        if self.keeps == "nothing":
            return {}
        rows = {PARAMETER + name: np.empty((draws, *self._values[name].shape)) for name in self._scheme.updates}
        block: Rows = self._block.new_rows(draws)
        return block | rows

    def _hand_out(self, rows: Rows) -> None:
        super()._hand_out(rows)
        self._traces = {name: rows[PARAMETER + name] for name in self._scheme.updates if rows}

    def arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = self._block.arrays()
        return arrays

    def state(self) -> dict[str, NDArray[Any]]:
        own = {f"value.{name}": value.copy() for name, value in self._values.items()}
        block = {f"block.{name}": array for name, array in self._block.state().items()}
        times = {"sweeps": np.array(self.sweeps), "cpu_seconds": np.array(self.cpu_seconds)}
        return own | block | times | {"generator": _to_words(self._generator)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        check_like(state, self.state())
        self._values = {name: state[f"value.{name}"].copy() for name in self._values}
        _from_words(self._generator, state["generator"])
        self.sweeps, self.cpu_seconds = int(state["sweeps"]), float(state["cpu_seconds"])
        # The target first: it must not move what is then put back.
        self._block.retarget(self._scheme.target_of(self._values))
        self._block.restore({name: state[f"block.{name}"] for name in self._block.state()})


def _to_words(generator: np.random.Generator) -> NDArray[np.uint64]:
    """Return the state of a PCG64 generator as numbers of 64 bits, shape (6,)."""
    state = generator.bit_generator.state
    wide = [state["state"]["state"], state["state"]["inc"]]
    words = [part for value in wide for part in (value >> 64, value & _WORD)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], np.uint64)


def _from_words(generator: np.random.Generator, words: NDArray[np.uint64]) -> None:
    """Put a generator into the state that `_to_words` returned."""
    high, low, inc_high, inc_low, has_uint32, uinteger = map(int, words)
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
