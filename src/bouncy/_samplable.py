"""What all targets have in common: labelled sites, a fingerprint, and the workers that sample them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._labels import check_labels

if TYPE_CHECKING:
    from bouncy.workers.contract import Plan, Worker

RunType = TypeVar("RunType", covariant=True)


class Samplable(Generic[RunType]):
    """A distribution over d sites that can be sampled.

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

    @labels.setter
    def labels(self, labels: Sequence[Hashable] | None) -> None:
        self._labels = None if labels is None else check_labels(labels, self.d)
        self.__dict__.pop("fingerprint", None)  # which depends on them

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
