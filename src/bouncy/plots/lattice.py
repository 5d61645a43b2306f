"""A state of a lattice model as an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from bouncy._validation import check_spins
from bouncy.plots.style import SPIN_COLOURS, axes_or_new
from bouncy.targets.mrf import MRF

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_lattice(target: MRF, s: ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw one state s, shape (d,), of a two-dimensional lattice: a square for each site, dark where s_i = -1."""
    shape = target.shape
    if shape is None or len(shape) != 2:
        raise ValueError(f"target has lattice shape {shape}; expected two sides, as of bouncy.MRF.ising((64, 64))")
    spins = check_spins(s, target.d)
    if spins.ndim != 1:
        raise ValueError(
            f"s has shape {spins.shape}; expected one state of shape ({target.d},), such as run.draws[0, -1]"
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
