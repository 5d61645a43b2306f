"""HTML for notebooks: text, tables, and small pictures that need no other package.

Everything that is passed as text is escaped. Lines and letters have the colour of the text around them and pictures no
background, so that both are legible in light and dark themes.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Two colours that differ from white, from black, and from each other in any kind of colour vision.
_BLUE, _ORANGE = (47, 134, 198), (213, 94, 0)
# Width and height of a chart, the width that its numbers take, the room around its points, and how many it has at most.
_WIDTH, _HEIGHT, _NUMBERS, _ROOM, _POINTS = 480, 110, 56, 8, 240
# Pixels of the longer side of a picture.
_SIDE = 160


def text(lines: Sequence[str], warnings: Sequence[str] = ()) -> str:
    """Return lines of text, and warnings below them."""
    shown = [escape(line.strip()) for line in lines]
    shown += [f'<span style="color:rgb{_ORANGE}">{escape(line.strip())}</span>' for line in warnings]
    return f"<p>{'<br>'.join(shown)}</p>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts."""
    parts = [_row("th", head), *(_row("td", row) for row in rows)]
    return "<table>\n" + "\n".join(parts) + "\n</table>"


def _row(cell: str, texts: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{cell}>{escape(entry)}</{cell}>" for entry in texts) + "</tr>"


def folded(title: str, content: str) -> str:
    """Return HTML that is shown when its title is clicked."""
    return f"<details><summary>{escape(title)}</summary>\n{content}\n</details>"


def chart(
    title: str,
    values: Array,
    low: Array | None = None,
    high: Array | None = None,
    ends: tuple[float, float] | None = None,
) -> str:
    """Return points beside each other, (n,), with bars from `low` to `high`; every k-th where there are too many.

    The axis reaches from one of `ends` to the other, or over all points and bars.
    """
    step = -(-values.size // _POINTS)
    points = np.stack([values, values if low is None else low, values if high is None else high])[:, ::step]
    known = np.isfinite(points[0])
    if not known.any():
        return ""
    points = np.where(np.isfinite(points), points, points[0])  # a bar of unknown length is not drawn
    bottom, top = ends or (float(points[:, known].min()), float(points[:, known].max()))
    unit = (_HEIGHT - 2 * _ROOM) / ((top - bottom) or 1.0)
    x = _NUMBERS + _ROOM + (np.arange(known.size) + 0.5) * (_WIDTH - _NUMBERS - 2 * _ROOM) / known.size
    y = _ROOM + (top - points) * unit
    places = zip(x[known], *y[:, known], strict=True)
    dots, bars = zip(*((f"M{a:.1f} {b:.1f}h0", f"M{a:.1f} {c:.1f}V{d:.1f}") for a, b, c, d in places), strict=True)
    zero = f'<path d="M{_NUMBERS} {_ROOM + top * unit:.1f}H{_WIDTH}" stroke="currentColor" stroke-dasharray="3 3"/>'
    marks = [
        f'<text x="{_NUMBERS - 4}" y="{height:.1f}" text-anchor="end" dominant-baseline="middle">{number:.3g}</text>'
        for number, height in {bottom: _HEIGHT - _ROOM, top: _ROOM}.items()
    ]
    thinned = f", one in {step} of {values.size:,}" if step > 1 else ""
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" fill="currentColor" font-size="11">'
        f"<title>{escape(title)}</title>{zero if bottom < 0.0 < top else ''}{''.join(marks)}"
        f'<path d="M{_NUMBERS} 0V{_HEIGHT}" stroke="currentColor"/>'
        f'<path d="{"".join(bars)}" stroke="rgb{_BLUE}" stroke-width="1.5"/>'
        f'<path d="{"".join(dots)}" stroke="rgb{_BLUE}" stroke-width="5" stroke-linecap="round"/></svg>'
        f"{text([title + thinned])}"
    )


def matrix(title: str, entries: Any) -> str:
    """Return a dense or sparse matrix as a picture, one pixel for each entry or for the largest of several."""
    pixels = _pixels(entries)
    largest = float(np.abs(pixels).max(initial=0.0))
    colours = np.zeros((*pixels.shape, 4), np.uint8)
    colours[..., :3] = np.where(pixels[..., None] < 0.0, _BLUE, _ORANGE)
    colours[..., 3] = np.rint(255.0 * np.abs(pixels) / (largest or 1.0))
    width = pixels.shape[1] * max(1, _SIDE // max(pixels.shape))
    source = base64.b64encode(_png(colours)).decode("ascii")
    style = f"width:{width}px;max-width:none;border:1px solid;image-rendering:pixelated"
    signs = f", blue below 0, orange above, up to ±{largest:.3g}" if (pixels < 0.0).any() else ""
    return f'<img style="{style}" alt="{escape(title)}" src="data:image/png;base64,{source}">{text([title + signs])}'


def _pixels(entries: Any) -> Array:
    """Return a matrix with the largest entry, by its size, of each square of entries."""
    square = -(-max(entries.shape) // _SIDE)
    rows, columns = (np.arange(0, side, square) for side in entries.shape)
    low, high = np.zeros((2, rows.size, columns.size))
    if isinstance(entries, np.ndarray):
        np.minimum.reduceat(np.minimum.reduceat(entries, rows, axis=0), columns, axis=1, out=low)
        np.maximum.reduceat(np.maximum.reduceat(entries, rows, axis=0), columns, axis=1, out=high)
    else:
        listed = entries.tocoo()
        place, values = (listed.row // square, listed.col // square), listed.data.astype(np.float64)
        np.minimum.at(low, place, values)
        np.maximum.at(high, place, values)
    return np.asarray(np.where(-low > high, low, high))


def _png(colours: NDArray[np.uint8]) -> bytes:
    """Return an image, (height, width, red, green, blue and alpha), as a PNG file."""
    height, width, _ = colours.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), colours.reshape(height, -1)], axis=1)  # 0: no filter
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    parts = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
