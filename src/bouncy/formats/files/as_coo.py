"""COO: the text format of `dimod.serialization.coo`, one term of an energy to a line.

A line `u v bias` is the term bias x_u x_v, or bias x_u where u = v; u and v are integers >= 0. Terms on the same pair
add up. Lines that start with `#` are comments; `# vartype=SPIN` says that variables are -1/+1, `# vartype=BINARY` that
they are 0/1. The format of dimod has no place for a constant: ours is kept in a comment, `# offset=1.5`, which dimod
passes over. Nor does dimod read exponents such as `1e-3`: we write all digits, and read both.

Sites come in the order of their labels.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from bouncy._validation import check_flag, check_positive
from bouncy.formats._terms import assemble, energy_terms, term_matrix
from bouncy.formats.files import _labels
from bouncy.formats.files._source import Source
from bouncy.formats.files._tokens import INDEX_END, parse_index, parse_number, show
from bouncy.formats.qubo import spin_form, to_qubo
from bouncy.targets.mrf import MRF

NAME = "coo"
SUFFIXES = (".coo",)
MAX_BYTES = 2**30
TARGETS = (MRF,)

_VARTYPES = ("SPIN", "BINARY")
_COMMENT = re.compile(rb"^[ \t\f]*#[^\n]*", re.MULTILINE)
_VARTYPE = re.compile(rb"vartype[:=][ \t]*([-_.a-zA-Z0-9]+)")
_OFFSET = re.compile(rb"[ \t\f]*#[ \t]*offset=(\S+)[ \t]*")
_NUMERALS = b"0123456789+-.eE \t\n"
_TERM = np.dtype([("u", np.int64), ("v", np.int64), ("bias", np.float64)])


def load(source: Source, *, vartype: Any = None, temperature: float = 1.0) -> MRF:
    """Read p ~ exp(-E/temperature), E being the energy in the file."""
    temperature = check_positive("temperature", temperature)
    given = None if vartype is None else _check_vartype(vartype)
    text = source.text()
    kind, offset = _read_comments(source, text, given)
    terms = _read_terms(source, _COMMENT.sub(b"", text))  # the ends of lines stay, and with them the numbers of lines
    labels, ends = np.unique(np.concatenate([terms["u"], terms["v"]]), return_inverse=True)
    i, j = ends.reshape(2, -1)
    with source.blamed():
        return _assemble(labels.tolist(), i, j, terms["bias"], kind, offset, temperature)


def save(
    target: MRF, file: BinaryIO, *, vartype: Any = "SPIN", temperature: float = 1.0, renumber: bool = False
) -> None:
    """Write the energy E = -temperature log p, first the linear term of every site, then the pairs."""
    kind = _check_vartype(vartype)
    numbers = _labels.site_numbers(target, check_flag("renumber", renumber), "a COO file")
    terms, offset = (_spin_terms if kind == "SPIN" else _binary_terms)(target, temperature)
    file.write(f"# vartype={kind}\n".encode())
    if offset:
        file.write(f"# offset={_decimal(offset)}\n".encode())
    for i, j, bias in terms:
        file.write(b"%d %d %b\n" % (numbers[i], numbers[j], _decimal(bias).encode()))


def _check_vartype(vartype: Any) -> str:
    """Return "SPIN" or "BINARY"; dimod's members of that name will do."""
    name = getattr(vartype, "name", vartype)
    if not isinstance(name, str) or name not in _VARTYPES:
        raise ValueError(f"vartype must be 'SPIN' (-1/+1) or 'BINARY' (0/1), got {vartype!r:.60}")
    return name


def _read_comments(source: Source, text: bytes, vartype: str | None) -> tuple[str, float]:
    """Return the vartype, from the header or as it was given, and the constant of the energy."""
    offset, line, counted = None, 1, 0
    for comment in _COMMENT.finditer(text):
        line += text.count(b"\n", counted, comment.start())
        counted = comment.start()
        header = _VARTYPE.search(comment.group())
        if header is not None:
            vartype = _read_vartype(source, header.group(1), vartype, line)
        constant = _OFFSET.fullmatch(comment.group())
        if constant is not None:
            if offset is not None:
                raise source.error("gives the offset a second time", line=line)
            offset = _read_number(source, constant.group(1), line)
    if vartype is None:
        raise source.error(
            "does not say what its variables are: there is no line '# vartype=SPIN' or '# vartype=BINARY'; "
            "pass vartype='SPIN' (-1/+1) or vartype='BINARY' (0/1)"
        )
    return vartype, 0.0 if offset is None else offset


def _read_vartype(source: Source, word: bytes, vartype: str | None, line: int) -> str:
    name = word.decode("ascii")
    if name not in _VARTYPES:
        raise source.error(f"vartype must be SPIN or BINARY, got {show(word)}", line=line)
    if vartype is not None and name != vartype:
        raise source.error(f"vartype is {name} here, but {vartype} before or as an argument", line=line)
    return name


def _read_number(source: Source, token: bytes, line: int) -> float:
    try:
        return parse_number(token)
    except ValueError as error:
        raise source.error(str(error), line=line) from None


def _read_terms(source: Source, text: bytes) -> NDArray[Any]:
    """Return all terms as an array of records (u, v, bias)."""
    if not text.strip():
        raise source.error("holds no terms; expected lines 'u v bias'")
    terms = _read_quickly(text)
    # line by line only if something is wrong, to find out where
    return _read_carefully(source, text) if terms is None else terms


def _read_quickly(text: bytes) -> NDArray[Any] | None:
    """Return what `_read_carefully` returns, ten times as fast, or None where anything is out of the ordinary."""
    if text.translate(None, _NUMERALS):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            terms = np.loadtxt(io.BytesIO(text), dtype=_TERM, comments=None, ndmin=1)
    except (ValueError, DeprecationWarning, OverflowError):
        return None
    ends = np.stack([terms["u"], terms["v"]])
    proper = np.isfinite(terms["bias"]).all() and ends.min() >= 0 and ends.max() < INDEX_END
    return terms if proper else None


def _read_carefully(source: Source, text: bytes) -> NDArray[Any]:
    found = []
    for number, line in enumerate(text.split(b"\n"), start=1):
        tokens = line.split()
        if not tokens:
            continue
        if len(tokens) != 3:
            raise source.error(f"expected 'u v bias', got {len(tokens)} entries: {show(line)}", line=number)
        try:
            found.append((parse_index(tokens[0]), parse_index(tokens[1]), parse_number(tokens[2])))
        except ValueError as error:
            raise source.error(str(error), line=number) from None
    return np.array(found, _TERM)


def _assemble(
    labels: list[int],
    i: NDArray[np.integer],
    j: NDArray[np.integer],
    bias: NDArray[np.float64],
    kind: str,
    offset: float,
    temperature: float,
) -> MRF:
    d = len(labels)
    single = i == j
    linear: NDArray[np.float64] = np.bincount(i[single], bias[single], d).astype(np.float64)
    K = term_matrix(i[~single], j[~single], bias[~single], d)
    if kind == "BINARY":
        K, linear, offset = spin_form(K, linear, offset)
    return assemble(labels, K, linear, offset, temperature)


def _spin_terms(target: MRF, temperature: float) -> tuple[Iterator[tuple[int, int, float]], float]:
    terms = energy_terms(target, temperature)
    return _rows(terms.h, terms.i, terms.j, terms.J), terms.offset


def _binary_terms(target: MRF, temperature: float) -> tuple[Iterator[tuple[int, int, float]], float]:
    plain = MRF(target.M, target.r, offset=target.offset)  # its labels are the numbers of its sites
    Q, offset = to_qubo(plain, temperature)
    return ((i, j, value) for (i, j), value in Q.items()), offset  # type: ignore[misc]


def _rows(
    h: NDArray[np.float64], i: NDArray[np.integer], j: NDArray[np.integer], J: NDArray[np.float64]
) -> Iterator[tuple[int, int, float]]:
    for site, value in enumerate(h.tolist()):
        yield site, site, value
    yield from zip(i.tolist(), j.tolist(), J.tolist(), strict=True)


def _decimal(value: float) -> str:
    """Return the shortest digits that give back the same float, without an exponent: dimod passes over those lines."""
    text = repr(value)
    return f"{Decimal(text):f}" if "e" in text else text
