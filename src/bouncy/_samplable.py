"""What all targets have in common: labelled sites, a fingerprint, and the workers that sample them."""

from __future__ import annotations

import inspect
from abc import ABCMeta, abstractmethod
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._memory import read_only

if TYPE_CHECKING:
    from bouncy.workers.contract import Plan, Worker

RunType = TypeVar("RunType", covariant=True)

# Sites that a notebook lists by label.
_NAMED = 8


class _Built(ABCMeta):
    """Metaclass of targets, which can no longer be changed when their constructor has returned."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        target = super().__call__(*args, **kwargs)
        close(target)
        return target

    @property
    def __signature__(cls) -> inspect.Signature:
        """Arguments of the constructor, which `inspect` would not look for behind `__call__`."""
        whole = inspect.signature(cls.__init__)  # type: ignore[misc]
        return whole.replace(parameters=list(whole.parameters.values())[1:])


def close(target: Samplable[Any]) -> None:
    """Make the public attributes of a target read-only, arrays among them as views: an array may be the caller's."""
    public = {name: value for name, value in vars(target).items() if not name.startswith("_")}
    vars(target).update({name: _closed(value) for name, value in public.items()}, _is_closed=True)


def _closed(value: Any) -> Any:
    """Return an array, or the arrays in a tuple, as views that cannot be written to, and anything else as it is."""
    if isinstance(value, np.ndarray):
        return read_only(value)
    return tuple(map(_closed, value)) if type(value) is tuple else value


class Samplable(Generic[RunType], metaclass=_Built):
    """A distribution over d sites that can be sampled.

    It never changes: what is sampled, labels and fingerprint included, is settled by its constructor. A subclass sets
    `d` and, where it takes labels, `_labels = read_labels(labels, d)` there.

    Attributes
    ----------
    d : int
        Number of sites.
    labels : tuple
        Names of the sites, in their order; 0, 1, ..., d - 1 by default.
    kind : {"spins", "paths"}
        Whether it is binary, or continuous or mixed: which kind of run sampling it gives.
    selects_variables : bool
        Whether a spin +1 stands for a variable that is in a model, as of `bouncy.VariableSelection`.
    """

    d: int
    kind: ClassVar[Literal["spins", "paths"]]
    selects_variables: bool = False
    _labels: tuple[Hashable, ...] | None = None

    @property
    def labels(self) -> tuple[Hashable, ...]:
        return tuple(range(self.d)) if self._labels is None else self._labels

    def __setattr__(self, name: str, value: Any) -> None:
        self._refuse_change(name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self._refuse_change(name)
        super().__delattr__(name)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        close(self)  # arrays that travelled can be written to again

    def _refuse_change(self, name: str) -> None:
        if "_is_closed" in vars(self) and not name.startswith("_"):
            raise AttributeError(
                f"a target never changes, so that its {name} cannot be set: build another {type(self).__name__}"
            )

    def _couplings(self) -> tuple[str, Any] | None:
        """Return what ties sites to each other, a matrix, and its name; None where there is no such matrix."""
        return None

    def quadratic_part(self) -> Any:
        """Return A, (d, d) or sparse, where log p(x) is -x'Ax/2 but for functions of single sites; None elsewhere.

        The law of a site given all others then depends on these through its entry of A x alone (`results/controls.py`).
        """
        return None

    @cached_property
    def _packed_couplings(self) -> dict[str, NDArray[Any]]:
        """The couplings that control variates use, which all workers share; empty without them."""
        from bouncy.recorders.controls import pack_couplings

        return pack_couplings(self.quadratic_part())

    def _repr_html_(self) -> str:
        """Return name, sites and a picture of the couplings for a notebook."""
        from bouncy import _html
        from bouncy._labels import short_label

        shown = [short_label(label) for label in self.labels[:_NAMED]] + ["..."] * (self.d > _NAMED)
        said = _html.text([repr(self), f"{self.d:,} site{'s' * (self.d != 1)}: {', '.join(shown)}"])
        known = self._couplings()
        return said if known is None else f"{said}\n{_html.matrix(*known)}"

    @property
    def sampled(self) -> Any:
        """The target that a sampler moves: this one, or the block of a scheme."""
        return self

    @abstractmethod
    def check_states(self, name: str, states: ArrayLike) -> NDArray[Any]:
        """Return states of shape (..., d) that chains can start from, or raise."""

    def workers(
        self, sampler: Any, plan: Plan, seeds: Sequence[np.random.SeedSequence], starts: Sequence[Any]
    ) -> list[Worker]:
        """Return workers of a sampler that carry as many chains as there are seeds.

        `starts` holds a state, (d,), for each chain, or None for a state of the target's choice.
        """
        workers: list[Worker] = sampler.workers(self, plan, seeds, starts)
        return workers

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Return what tells this target from others, as JSON knows it."""

    @cached_property
    def fingerprint(self) -> str:
        """Digest that is the same for equal targets on every machine, and another one for other targets."""
        from bouncy._fingerprint import digest

        return digest(self.description())
