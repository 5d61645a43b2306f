"""A page of headings, paragraphs, tables and pictures, as Markdown and as one self-contained HTML file.

All texts are escaped. Only `sigma_M`, `sigma_r` and letters with an index, such as `s_i`
and `A_ij`, are set as symbols.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template


class Strong(str):
    """A cell of a table in bold."""

    __slots__ = ()


class Badge(str):
    """A cell of a table with a verdict in its first line; the HTML page adds a colour."""

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


# --- template ---------------------------------------------------------------------------------------------------------


def fill_template(name: str, texts: Mapping[str, str], blocks: Mapping[str, Sequence[Block]]) -> list[Block]:
    """Return the blocks of a template in this folder.

    Empty lines separate headings (`#`), lists (`-`), paragraphs, which may end with an address (`<...>`), and places
    for `blocks` (`$name`). `texts` replace `$name` within texts; an item of a list that becomes empty is left out.
    """

    def fill(text: str) -> str:
        return Template(" ".join(text.split())).substitute(texts)

    found: list[Block] = []
    for part in _read(name).strip().split("\n\n"):
        if part[0] == "$" and part[1:] in blocks:
            found += blocks[part[1:]]
        elif part[0] == "#":
            signs, _, text = part.partition(" ")
            found.append(Heading(fill(text), len(signs)))
        elif part[0] == "-":
            found.append(Bullets([text for item in re.split("^- ", part, flags=re.MULTILINE) if (text := fill(item))]))
        else:
            text, _, address = fill(part).partition(" <")
            found.append(Paragraph(text, address.removesuffix(">")))
    return found


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


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

_SHORT = 24  # characters
_KINDS = {"reproduces": "good", "reproduces in part": "part", "mixed": "mixed", "does not reproduce": "bad"}


def as_html(blocks: Sequence[Block], directory: Path) -> str:
    """Return the page as one HTML file: style and pictures are inside. Pictures are read from `directory`."""
    title = next((block.text for block in blocks if isinstance(block, Heading) and block.level == 1), "")
    body = "\n".join(_html(block, directory) for block in blocks)
    return Template(_read("page.html")).substitute(title=html.escape(title), body=body)


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
    # ASCII: otherwise the superscript in sigma_M² would count as a letter.
    greek = re.sub(r"sigma_([Mr])\b", r"σ<sub>\1</sub>", text, flags=re.ASCII)
    return re.sub(r"\b([Ars])_(ij|i|j)\b", r"\1<sub>\2</sub>", greek)
