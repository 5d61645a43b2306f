"""A page of headings, paragraphs, tables and pictures, as Markdown and as one HTML file that needs nothing else.

Texts are plain: whatever they contain is escaped. Only `sigma_M`, `sigma_r` and letters with an index, such as `s_i`
and `A_ij`, are set as symbols.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class Strong(str):
    """A cell of a table to be seen first."""

    __slots__ = ()


class Badge(str):
    """A cell of a table that holds a verdict in its first line; the HTML page shows its kind by a colour too."""

    __slots__ = ()


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title of the page."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """A paragraph, and a link at its end if there is an address."""

    text: str
    address: str = ""


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Table:
    """A table: a title, the names of the columns, and rows with as many cells, which may have several lines."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """A picture in a file beside the page."""

    name: str
    alternative: str
    caption: str


Block = Heading | Paragraph | Bullets | Table | Picture


# --- Markdown ---------------------------------------------------------------------------------------------------------


def as_markdown(blocks: Sequence[Block]) -> str:
    """Return the page in Markdown; pictures are linked."""
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {_escape_markdown(text)}"
        case Paragraph(text, address):
            return _escape_markdown(text) + (f" <{address}>" if address else "")
        case Bullets(items):
            return "\n".join(f"- {_escape_markdown(item)}" for item in items)
        case Table(title, header, rows):
            lines = [header, ["---"] * len(header), *rows]
            return "\n".join([f"**{_escape_markdown(title)}**", "", *map(_markdown_row, lines)])
        case Picture(name, alternative, caption):
            return f"![{_escape_markdown(alternative)}]({name})\n\n*{_escape_markdown(caption)}*"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_markdown_cell(cell) for cell in cells)} |"


def _markdown_cell(cell: str) -> str:
    first, *others = map(_escape_markdown, cell.split("\n"))
    return "<br>".join([f"**{first}**" if isinstance(cell, Strong | Badge) else first, *others])


def _escape_markdown(text: str) -> str:
    plain = re.sub(r"([\\`*|~\[\]])", r"\\\1", html.escape(text, quote=False))
    return _set_symbols(plain)


# --- HTML -------------------------------------------------------------------------------------------------------------

_CSS = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #fbfbfa; color: #1c1e21; }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 64rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0.5rem 0 1rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 0.75rem; padding-bottom: 0.3rem; border-bottom: 1px solid #d8dadd; }
h3 { font-size: 1.05rem; margin: 1.75rem 0 0.5rem; }
p, ul { max-width: 46rem; overflow-wrap: anywhere; }
li { margin: 0.4rem 0; }
a { color: #005a8c; }
figure { margin: 1.5rem 0; }
figure img { display: block; width: 100%; height: auto; background: #fff; border: 1px solid #e3e4e6; }
figcaption { max-width: 46rem; margin-top: 0.6rem; color: #44484d; font-size: 0.95rem; }
.table { overflow-x: auto; margin: 1rem 0 1.5rem; background: #fff; border: 1px solid #e3e4e6; border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: 0.6rem 0.55rem; font-weight: 600; }
th, td { padding: 0.4rem 0.55rem; text-align: left; vertical-align: top; border-top: 1px solid #e9eaec; }
th { background: #f3f4f5; white-space: nowrap; }
td.short { white-space: nowrap; }
td.long { min-width: 12rem; }
sub { line-height: 0; font-size: 0.72em; }
.badge { display: inline-block; padding: 0.05rem 0.5rem; border-radius: 999px; font-weight: 600; white-space: nowrap; }
.good { background: #d3eee5; color: #00513a; }
.part { background: #fdeccb; color: #6b4a00; }
.mixed { background: #e3dbf3; color: #46257a; }
.bad { background: #fbdccb; color: #7d3200; }
.none { background: #e6e7e9; color: #3c4045; }
"""

_SHORT = 24  # characters
_KINDS = {"reproduces": "good", "reproduces in part": "part", "mixed": "mixed", "does not reproduce": "bad"}


def as_html(blocks: Sequence[Block], directory: Path) -> str:
    """Return the page as one HTML file: style and pictures are inside. Pictures are read from `directory`."""
    title = next((block.text for block in blocks if isinstance(block, Heading) and block.level == 1), "")
    body = "\n".join(_html(block, directory) for block in blocks)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _html(block: Block, directory: Path) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_escape_html(text)}</h{level}>"
        case Paragraph(text, address):
            link = f' <a href="{html.escape(address)}">{html.escape(address)}</a>' if address else ""
            return f"<p>{_escape_html(text)}{link}</p>"
        case Bullets(items):
            return "<ul>\n" + "\n".join(f"<li>{_escape_html(item)}</li>" for item in items) + "\n</ul>"
        case Table():
            return _html_table(block)
        case Picture(name, alternative, caption):
            data = base64.b64encode((directory / name).read_bytes()).decode("ascii")
            image = f'<img src="data:image/png;base64,{data}" alt="{html.escape(alternative)}">'
            return f"<figure>\n{image}\n<figcaption>{_escape_html(caption)}</figcaption>\n</figure>"


def _html_table(table: Table) -> str:
    """Return a table in a box of its own, which scrolls sideways where the screen is narrow."""
    header = "".join(f'<th scope="col">{_escape_html(cell)}</th>' for cell in table.header)
    rows = "\n".join("<tr>" + "".join(map(_html_cell, row)) + "</tr>" for row in table.rows)
    return (
        f'<div class="table">\n<table>\n<caption>{_escape_html(table.title)}</caption>\n'
        f"<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</div>"
    )


def _html_cell(cell: str) -> str:
    """Return a cell; short lines, such as a number with its interval, are not broken."""
    lines = cell.split("\n")
    first, *others = map(_escape_html, lines)
    if isinstance(cell, Badge):
        first = f'<span class="badge {_KINDS.get(lines[0], "none")}">{first}</span>'
    elif isinstance(cell, Strong):
        first = f"<strong>{first}</strong>"
    width = "short" if max(map(len, lines)) <= _SHORT else "long"
    return f'<td class="{width}">{"<br>".join([first, *others])}</td>'


def _escape_html(text: str) -> str:
    # An equation is not broken into lines.
    return _set_symbols(html.escape(text).replace(" = ", "\u00a0=\u00a0"))


def _set_symbols(text: str) -> str:
    """Return text with the subscripts of σ_M and σ_r, and those of s_i, r_i, A_ij and the like, set."""
    # ASCII, as the superscript in sigma_M² would count as a letter else.
    greek = re.sub(r"sigma_([Mr])\b", r"σ<sub>\1</sub>", text, flags=re.ASCII)
    return re.sub(r"\b([Ars])_(ij|i|j)\b", r"\1<sub>\2</sub>", greek)
