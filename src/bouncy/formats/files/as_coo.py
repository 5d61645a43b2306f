"""COO: the text format of `dimod.serialization.coo`, one term of an energy to a line.

A line `u v bias` is the term bias x_u x_v, or bias x_u where u = v; u and v are integers >= 0. Terms on the same pair
add up. Lines that start with `#` are comments; `# vartype=SPIN` says that variables are -1/+1, `# vartype=BINARY` that
they are 0/1. Two comments of ours are ignored by dimod: `# offset=1.5` is the constant of the energy, and `# terms=12`
the number of terms in a file that ends with a newline, so that a truncated file is refused. dimod does not read
exponents such as `1e-3`: we write all digits, and read both.

Sites are in the order of their labels.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._validation import check_flag, check_positive
from bouncy.formats._terms import assemble, energy_terms, term_matrix
from bouncy.formats.files import _sites
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
_OWN = re.compile(rb"[ \t\f]*#[ \t]*(offset|terms)=(\S+)[ \t]*")
_NUMERALS = b"0123456789+-.eE \t\n"
_TERM = np.dtype([("u", np.int64), ("v", np.int64), ("bias", np.float64)])
_Terms = tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float64], float]  # i, j, bias; offset


class _Comments(NamedTuple):
    """Contents of the comments of a file."""

    vartype: str
    offset: float = 0.0
    terms: int | None = None


def load(source: Source, *, vartype: Any = None, temperature: float = 1.0) -> MRF:
    """Read p ~ exp(-E/temperature), E being the energy in the file."""
    temperature = check_positive("temperature", temperature)
    given = None if vartype is None else _check_vartype(vartype)
    text = source.text()
    comments = _read_comments(source, text, given)
    terms = _read_terms(source, _COMMENT.sub(b"", text))  # newlines stay, so that errors have the right line
    _check_complete(source, comments.terms, terms.size, text.endswith(b"\n"))
    labels, ends = np.unique(np.concatenate([terms["u"], terms["v"]]), return_inverse=True)
    i, j = ends.reshape(2, -1)
    with source.blamed():
        return _assemble(labels.tolist(), i, j, terms["bias"], comments.vartype, comments.offset, temperature)


def save(
    target: MRF, file: BinaryIO, *, vartype: Any = "SPIN", temperature: float = 1.0, renumber: bool = False
) -> None:
    """Write the energy E = -temperature log p, first the linear term of every site, then the pairs."""
    kind = _check_vartype(vartype)
    numbers = _sites.site_numbers(target, check_flag("renumber", renumber), "a COO file")
    i, j, bias, offset = (_spin_terms if kind == "SPIN" else _binary_terms)(target, temperature)
    file.write(f"# vartype={kind}\n# terms={bias.size}\n".encode())
    if offset:
        file.write(f"# offset={_decimal(offset)}\n".encode())
    for u, v, value in zip(i.tolist(), j.tolist(), bias.tolist(), strict=True):
        file.write(b"%d %d %b\n" % (numbers[u], numbers[v], _decimal(value).encode()))


def _check_vartype(vartype: Any) -> str:
    """Return "SPIN" or "BINARY"; dimod's members of that name are accepted too."""
    name = getattr(vartype, "name", vartype)
    if not isinstance(name, str) or name not in _VARTYPES:
        raise ValueError(f"vartype must be 'SPIN' (-1/+1) or 'BINARY' (0/1), got {vartype!r:.60}")
    return name


def _read_comments(source: Source, text: bytes, vartype: str | None) -> _Comments:
    """Return what the comments say; the vartype may be given instead."""
    found: dict[str, Any] = {}
    line, counted = 1, 0
    for comment in _COMMENT.finditer(text):
        line += text.count(b"\n", counted, comment.start())
        counted = comment.start()
        header = _VARTYPE.search(comment.group())
        if header is not None:
            vartype = _read_vartype(source, header.group(1), vartype, line)
        own = _OWN.fullmatch(comment.group())
        if own is not None:
            name, token = own.group(1).decode("ascii"), own.group(2)
            if name in found:
                raise source.error(f"gives {name} a second time", line=line)
            found[name] = _read_token(source, parse_number if name == "offset" else parse_index, token, line)
    if vartype is None:
        raise source.error(
            "does not say what its variables are: there is no line '# vartype=SPIN' or '# vartype=BINARY'; "
            "pass vartype='SPIN' (-1/+1) or vartype='BINARY' (0/1)"
        )
    return _Comments(vartype, **found)


def _read_vartype(source: Source, word: bytes, vartype: str | None, line: int) -> str:
    name = word.decode("ascii")
    if name not in _VARTYPES:
        raise source.error(f"vartype must be SPIN or BINARY, got {show(word)}", line=line)
    if vartype is not None and name != vartype:
        raise source.error(f"vartype is {name} here, but {vartype} before or as an argument", line=line)
    return name


def _read_token(source: Source, parse: Callable[[bytes], float], token: bytes, line: int) -> float:
    try:
        return parse(token)
    except ValueError as error:
        raise source.error(str(error), line=line) from None


def _check_complete(source: Source, declared: int | None, found: int, ended: bool) -> None:
    """Raise if a file that declares its number of terms has another number, or ends within the last one."""
    if declared is None or (found == declared and ended):
        return
    problem = f"has {found} terms" if found != declared else "does not end with a newline"
    raise source.error(
        f"{problem}, but a comment declares terms={declared}: the file is truncated, or was edited and the comment "
        "should be removed"
    )


def _read_terms(source: Source, text: bytes) -> NDArray[Any]:
    """Return all terms as an array of records (u, v, bias)."""
    if not text.strip():
        raise source.error("holds no terms; expected lines 'u v bias'")
    terms = _read_quickly(text)
    # line by line only to find the line of an error
    return _read_carefully(source, text) if terms is None else terms


def _read_quickly(text: bytes) -> NDArray[Any] | None:
    """Return what `_read_carefully` returns, ten times as fast, or None for text that it may refuse."""
    if text.translate(None, _NUMERALS):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            terms = np.loadtxt(io.BytesIO(text), dtype=_TERM, comments=None, ndmin=1)
    except (ValueError, DeprecationWarning, OverflowError):
        return None
    ends = np.stack([terms["u"], terms["v"]])
    valid = np.isfinite(terms["bias"]).all() and ends.min() >= 0 and ends.max() < INDEX_END
    return terms if valid else None


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


def _spin_terms(target: MRF, temperature: float) -> _Terms:
    terms = energy_terms(target, temperature)
    sites = np.arange(target.d)
    return np.r_[sites, terms.i], np.r_[sites, terms.j], np.r_[terms.h, terms.J], terms.offset


def _binary_terms(target: MRF, temperature: float) -> _Terms:
    Q, offset = to_qubo(MRF(target.M, target.r, offset=target.offset), temperature)  # labelled by the numbers of sites
    i, j = np.array(list(Q)).T
    return i, j, np.fromiter(Q.values(), np.float64, len(Q)), offset


def _decimal(value: float) -> str:
    """Return the shortest digits of a float, without an exponent: dimod ignores lines with exponents."""
    text = repr(value)
    return f"{Decimal(text):f}" if "e" in text else text
