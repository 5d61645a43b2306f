"""The target of a run that was read from a file without its target."""

from __future__ import annotations

from typing import Any, NoReturn

from numpy.typing import ArrayLike, NDArray

from bouncy._samplable import Samplable


class StoredTarget(Samplable[Any]):
    """The target of a run that was read from a file, as far as the file knows it.

    Attributes
    ----------
    d, labels, kind, selects_variables
        As of the target.
    shape : tuple of int or None
        Sides of the lattice, if it was one.
    log_size : float
        Logarithm of the number of states, of spins.
    fingerprint : str
        Digest that tells it from other targets.
    """

    fingerprint: str = ""

    def __init__(
        self,
        kind: Any,
        d: int,
        labels: Any,
        text: str,
        shape: Any,
        fingerprint: str,
        selects_variables: bool,
        log_size: float,
    ) -> None:
        self.kind, self.d, self._labels, self._text = kind, d, labels, text  # type: ignore[misc]
        self.shape, self.fingerprint, self.selects_variables = shape, fingerprint, selects_variables
        self.log_size = log_size

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"a run that was read from a file knows its target by name only, which has no {name!r}; pass the target "
            "itself, as in bouncy.Run.load(path, target=target)"
        )

    def check_states(self, name: str, states: ArrayLike) -> NDArray[Any]:
        return self.__getattr__("check_states")

    def description(self) -> dict[str, Any]:
        return self.__getattr__("description")

    def workers(self, *_: Any) -> NoReturn:
        raise RuntimeError(
            "a run that was read from a file can go on only with its target: pass it, as in "
            "bouncy.Run.load(path, target=target)"
        )

    def __repr__(self) -> str:
        return self._text
