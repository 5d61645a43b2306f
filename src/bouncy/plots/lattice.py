"""A state of a lattice model as an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._validation import check_spins
from bouncy.plots.style import SPIN_COLOURS, axes_or_new
from bouncy.results.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bouncy.results.spins import SpinRun
    from bouncy.targets.mrf import MRF


def plot_lattice(
    target: MRF | SpinRun, s: ArrayLike | None = None, ax: Axes | None = None, *, chain: int = 0, draw: int = -1
) -> Axes:
    """Draw one state of a two-dimensional lattice: a square for each site, dark where s_i = -1.

    Parameters
    ----------
    target : MRF or SpinRun
        A model with a lattice, or a run on one.
    s : array_like, shape (d,), optional
        The state. Not needed with a run, which has states of its own.
    ax : Axes, optional
        Where to draw; a new figure otherwise.
    chain, draw : int
        Which state of a run; the last of the first chain unless told otherwise.

    Examples
    --------
    >>> import bouncy
    >>> from bouncy.plots import plot_lattice
    >>> run = bouncy.sample(bouncy.MRF.ising((8, 8)), draws=50, seed=0)
    >>> ax = plot_lattice(run, draw=10)
    """
    model: Any = target
    if isinstance(target, Run):
        model, s = target.target, _state(target, chain, draw) if s is None else s
    shape = getattr(model, "shape", None)
    if shape is None or len(shape) != 2:
        raise ValueError(f"target has lattice shape {shape}; expected two sides, as of bouncy.MRF.ising((64, 64))")
    if s is None:
        raise TypeError("plot_lattice of a model needs a state s, such as run.draws[0, -1]; or give it the run itself")
    spins = check_spins(s, model.d)
    if spins.ndim != 1:
        raise ValueError(
            f"s has shape {spins.shape}; expected one state of shape ({model.d},), such as run.draws[0, -1]"
        )
    ax = axes_or_new(ax)
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    ax.imshow(spins.reshape(shape), cmap=ListedColormap(SPIN_COLOURS), vmin=-1, vmax=1, interpolation="nearest")
    ax.set_xlabel("column")
    ax.set_ylabel("row")
    names = ("$s_i=-1$", "$s_i=+1$")
    patches = [
        Patch(facecolor=colour, edgecolor="black", linewidth=0.5, label=name)
        for colour, name in zip(SPIN_COLOURS, names, strict=True)
    ]
    ax.legend(handles=patches, loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.3)
    return ax


def _state(run: Any, chain: int, draw: int) -> NDArray[np.int8]:
    """Return one draw of a run."""
    chains, draws, _ = run.draws.shape
    if draws == 0:
        raise ValueError("the run has kept no states; sample again with keep='draws', or give a state s")
    for name, value, n in (("chain", chain, chains), ("draw", draw, draws)):
        if not -n <= value < n:
            raise ValueError(f"{name} is {value}; expected 0 to {n - 1}, or a negative number that counts from the end")
    state: NDArray[np.int8] = run.draws[chain, draw]
    return state
