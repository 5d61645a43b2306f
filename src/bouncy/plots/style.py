"""Style of all plots: colours, marks of events, settings, and axes where none are given.

The colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bouncy.plots.trajectory import Event
from bouncy.samplers import registry

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLACK = "#000000"
GREY = "#7f7f7f"
LIGHT = "#d9d9d9"
ORANGE = "#e69f00"
SKY_BLUE = "#56b4e9"
GREEN = "#009e73"
BLUE = "#0072b2"
VERMILION = "#d55e00"
PURPLE = "#cc79a7"

# Spins down and up, dark and light, so that they differ in black and white too.
SPIN_COLOURS = ("#1b3a5c", "#f4e9c9")

_EDGE: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.5}
EVENT_MARKS: dict[Event, dict[str, Any]] = {
    Event.CROSSING: {"label": "wall crossed", "marker": "o", "markersize": 5.5, "color": GREEN, **_EDGE},
    Event.REFUSAL: {"label": "wall refused", "marker": "X", "markersize": 7.5, "color": VERMILION, **_EDGE},
    Event.BOUNCE: {"label": "bounce", "marker": "^", "markersize": 5.5, "color": ORANGE, **_EDGE},
    Event.REFRESHMENT: {"label": "refreshment", "marker": "*", "markersize": 12, "color": PURPLE, **_EDGE},
}

# Settings for a figure in a document: `with matplotlib.rc_context(style.SETTINGS): ...`.
SETTINGS: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.dpi": 150,
    "savefig.dpi": 150,
}

# Colours of up to eight chains; more chains take theirs from a colour map.
_CHAIN_COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY_BLUE, BLACK, "#b8a500")
# Most chains named in a legend.
_MOST_NAMED = 16
# Most letters of a label along an axis.
_MOST_LETTERS = 12


def colour_of(sampler: str) -> str:
    """Return the colour of a sampler, the same in every figure; grey if its name is not registered."""
    return next((entry.colour for entry in registry() if entry.name == sampler), GREY)


def label_and_colour(run: Any, label: str | None, colour: str | None) -> tuple[str, str]:
    """Return the given label and colour, by default the name and the colour of the sampler of a run."""
    return label or run.sampler.name, colour or colour_of(run.sampler.name)


def axes_or_new(ax: Axes | None) -> Axes:
    """Return the given axes, or the axes of a new figure."""
    if ax is not None:
        return ax
    axes: Axes = import_pyplot().subplots(layout="constrained")[1]
    return axes


def colour_axis(ax: Axes, colour: str, side: str) -> None:
    """Give the y axis on one side the colour of what is drawn by it."""
    ax.yaxis.label.set_color(colour)
    ax.tick_params(axis="y", colors=colour)
    ax.spines[side].set_visible(True)
    ax.spines[side].set_color(colour)


def import_pyplot() -> Any:
    """Return `matplotlib.pyplot`, imported when the first plot is drawn."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib, which is not installed; pip install 'bouncy[plots]'") from error
    return pyplot


def shorten(label: object) -> str:
    """Return the text of a label, shortened to fit along an axis."""
    text = str(label)
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"


def label_sites(ax: Axes, labels: Sequence[object], **text: Any) -> None:
    """Write the labels of sites along the x axis, at an angle if they are long."""
    names = [shorten(label) for label in labels]
    if max(map(len, names)) * len(names) > 40:
        text |= {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(range(len(names)), names, **text)


def chain_colours(n: int) -> list[Any]:
    """Return a colour for each of n chains; the same number of chains has the same colours in every figure."""
    if n <= len(_CHAIN_COLOURS):
        return list(_CHAIN_COLOURS[:n])
    from matplotlib import colormaps

    return [colormaps["turbo"](0.04 + 0.92 * k / (n - 1)) for k in range(n)]


def name_chains(ax: Axes) -> None:
    """Put a legend of chains beside the axes, if there are several; of very many, some are named."""
    handles, labels = ax.get_legend_handles_labels()
    step = -(-len(handles) // _MOST_NAMED)
    if len(handles) > 1:
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.0}
        ax.legend(handles[::step], labels[::step], fontsize="small", handlelength=1.2, labelspacing=0.25, **place)
