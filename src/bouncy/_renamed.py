"""Keywords that have a new name: the old one raises an error that tells the new one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def renamed(**names: str) -> Callable[[Function], Function]:
    """Return a decorator that raises `TypeError` where a function is called with the old name of a keyword.

    Parameters
    ----------
    **names : str
        The new name of each old one.

    Examples
    --------
    >>> @renamed(colour="color")
    ... def draw(*, color): ...
    >>> draw(colour="red")
    Traceback (most recent call last):
    TypeError: draw() has no argument 'colour': its name is now 'color'
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def checked(*arguments: Any, **keywords: Any) -> Any:
            for old, new in names.items():
                if old in keywords:
                    raise TypeError(f"{function.__name__}() has no argument {old!r}: its name is now {new!r}")
            return function(*arguments, **keywords)

        return cast(Function, checked)

    return decorate
