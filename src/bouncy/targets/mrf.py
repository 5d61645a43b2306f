"""Markov random field over spins with pairwise couplings: Ising models, spin glasses, Boltzmann machines, QUBOs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from bouncy._labels import Labels, align, match, read_labels
from bouncy._memory import aligned_copy, aligned_empty, read_only
from bouncy._validation import (
    as_seed_sequence,
    check_count,
    check_finite,
    check_flag,
    check_nonnegative,
    check_real_array,
    check_real_dtype,
    check_spins,
    entry,
    first_true,
)
from bouncy.targets.contract import Target
from bouncy.targets.fields import DenseFields, SparseFields

if TYPE_CHECKING:
    from bouncy.formats.files.json_fields import Fields

# M_ij and M_ji that differ by no more than this, relatively, differ by rounding alone.
_ROUNDING = 1e-12
# Local fields are kept by adding and subtracting couplings, so a term this much smaller than the sum of its row keeps
# fewer than 13 of its 53 bits. Terms too small to move a probability may be lost.
_RANGE = 2.0**40
_NEGLIGIBLE = 1e-9
# Entries looked at together, so that temporaries stay small beside a large model or batch.
_BLOCK = 2**20


class MRF(Target):
    """The distribution p(s) ~ exp(-s.r - s'Ms/2) over spins s in {-1, +1}^d.

    Parameters
    ----------
    M : (d, d) array-like, data frame, or scipy.sparse matrix or array
        Symmetric couplings with zero diagonal. Copied. A sparse M is never made dense. The index and the columns of a
        data frame must have the same labels, in any order; sites are in the order of the index.
    r : (d,) array-like, series or scalar
        Fields; a scalar is the same field on every site. Copied. A series is matched to M by its labels.
    symmetrize : bool
        Accept an asymmetric M and use (M + M')/2, which describes the same distribution.
    labels : sequence, optional
        Names of the sites, in their order; by default those of the data frame or series, else 0, ..., d - 1.
    offset : float
        Added to log p: log p(s) = offset - s.r - s'Ms/2. It changes `log_prob` and nothing that is sampled.
    shape : int or sequence of int, optional
        Sides of the lattice that the sites are on, numbered in C order; for pictures.

    Attributes
    ----------
    d : int
        Number of sites.
    labels : tuple
        Names of the sites.
    shape : tuple of int or None
        Sides of the lattice, if there is one.

    Examples
    --------
    >>> import bouncy
    >>> t = bouncy.MRF([[0.0, -1.0], [-1.0, 0.0]], r=0.5)
    >>> t
    MRF(d=2, dense, 1 pair)
    >>> t.log_prob([[1, 1], [1, -1]])
    array([ 0., -1.])
    """

    json_kind = "mrf"

    def __init__(
        self,
        M: ArrayLike | scipy.sparse.sparray | scipy.sparse.spmatrix,
        r: ArrayLike = 0.0,
        *,
        symmetrize: bool = False,
        labels: Sequence[Hashable] | None = None,
        offset: float = 0.0,
        shape: int | Sequence[int] | None = None,
    ) -> None:
        (M, r), named = align(("M", M, "site", "site"), ("r", r, "site"))
        matrix = _read_couplings(M)
        fields = _read_fields(r, matrix.shape[0])
        _check_diagonal(matrix)
        matrix = _symmetric(matrix, check_flag("symmetrize", symmetrize))
        row_scale = _check_overflow(matrix, fields)
        _check_range(matrix, fields, row_scale)

        self.d: int = matrix.shape[0]
        self._labels = read_labels(named["site"] if labels is None else labels, self.d)
        self.offset = check_finite("offset", offset)
        self.shape: tuple[int, ...] | None = None if shape is None else _read_sides(shape, self.d)
        self.is_sparse = _is_sparse(matrix)
        # Compiled loops are specialised on writable arrays; users only ever see read-only views of these.
        self._r = fields
        if self.is_sparse:
            self._indptr = np.array(matrix.indptr, dtype=np.int64)
            self._indices = np.array(matrix.indices, dtype=np.int32)
            self._data = np.array(matrix.data, dtype=np.float64)
        else:
            self._M: NDArray[np.float64] = aligned_copy(matrix)

    @classmethod
    def random(
        cls,
        d: int,
        sigma_M: float = 0.2,
        sigma_r: float = 0.1,
        seed: Any = 0,
        labels: Sequence[Hashable] | None = None,
    ) -> MRF:
        """Draw from the paper's ensemble: M = (A + A')/2, zero diagonal, A_ij ~ sigma_M N(0,1), r_i ~ sigma_r N(0,1).

        Examples
        --------
        >>> import bouncy
        >>> bouncy.MRF.random(10, seed=1)
        MRF(d=10, dense, 45 pairs)
        """
        d = check_count("d", d)
        sigma_M = check_nonnegative("sigma_M", sigma_M)
        sigma_r = check_nonnegative("sigma_r", sigma_r)
        generator = np.random.default_rng(as_seed_sequence(seed))
        A = sigma_M * generator.standard_normal((d, d))
        M = (A + A.T) / 2
        np.fill_diagonal(M, 0.0)
        return cls(M, sigma_r * generator.standard_normal(d), labels=labels)

    @classmethod
    def ising(
        cls,
        shape: int | Sequence[int],
        coupling: float | Sequence[float] = 0.44,
        field: ArrayLike = 0.0,
        periodic: bool = True,
        labels: Sequence[Hashable] | None = None,
    ) -> MRF:
        """Make a lattice with p(s) ~ exp(coupling sum_<ij> s_i s_j + field sum_i s_i), stored sparsely.

        Parameters
        ----------
        shape : int or tuple of int
            Sides of the lattice, in any number of dimensions. Sites are numbered in C order.
        coupling : float or one float per dimension
            Positive values favour equal neighbours.
        field : scalar or array of the lattice's shape
        periodic : bool
            Wrap every dimension around. The sum runs over one bond per site and direction, so on a side of 2 the
            same pair is joined twice (its coupling is doubled), and a side of 1 adds nothing.
        labels : sequence, optional
            Names of the sites.

        Examples
        --------
        >>> import bouncy
        >>> bouncy.MRF.ising((64, 64), coupling=0.3)
        MRF(d=4096, sparse, 8192 pairs, lattice 64x64)
        """
        sides = _read_shape(shape)
        periodic = check_flag("periodic", periodic)
        couplings = _per_dimension(coupling, len(sides))
        fields = check_real_array("field", field)
        if fields.ndim > 0 and fields.shape != sides:
            raise ValueError(f"field must be a scalar or have the lattice's shape {sides}, got shape {fields.shape}")
        r = 0.0 - fields  # not -fields, which would make negative zeros
        M = _lattice_couplings(sides, couplings, periodic)
        return cls(M, r.ravel() if r.ndim else r, labels=labels, shape=sides)

    @classmethod
    def from_ising(cls, h: Any, J: Any, temperature: float = 1.0, offset: float = 0.0) -> MRF:
        """Make p(s) ~ exp(-E(s)/T) from E(s) = sum_i h_i s_i + sum_ij J_ij s_i s_j + offset; dicts or arrays."""
        from bouncy.formats.ising import from_ising

        return from_ising(h, J, temperature, offset)

    @classmethod
    def from_qubo(cls, Q: Any, temperature: float = 1.0, offset: float = 0.0) -> MRF:
        """Make p(s) ~ exp(-E(x)/T) from E(x) = x'Qx + offset, x = (1 + s)/2 in {0, 1}; a dict or an array."""
        from bouncy.formats.qubo import from_qubo

        return from_qubo(Q, temperature, offset)

    @classmethod
    def from_bqm(cls, bqm: Any, temperature: float = 1.0) -> MRF:
        """Make p(s) ~ exp(-E(s)/T) from a `dimod.BinaryQuadraticModel`."""
        from bouncy.formats.ising import from_bqm

        return from_bqm(bqm, temperature)

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        coupling: Any = "weight",
        field: Any = 0.0,
        temperature: float = 1.0,
        *,
        default_coupling: float | None = None,
        default_field: float | None = None,
    ) -> MRF:
        """Make p(s) ~ exp((sum_edges coupling s_u s_v + sum_nodes field s_u)/T) from the attributes of a graph."""
        from bouncy.formats.graphs import from_networkx

        return from_networkx(
            graph, coupling, field, temperature, default_coupling=default_coupling, default_field=default_field
        )

    def to_ising(self, temperature: float = 1.0) -> tuple[dict[Any, float], dict[tuple[Any, Any], float], float]:
        """Return (h, J, offset) of E(s) = -T log p(s), in the labels of the model."""
        from bouncy.formats.ising import to_ising

        return to_ising(self, temperature)

    def to_qubo(self, temperature: float = 1.0) -> tuple[dict[tuple[Any, Any], float], float]:
        """Return (Q, offset) of E(x) = -T log p(s), x = (1 + s)/2, in the labels of the model."""
        from bouncy.formats.qubo import to_qubo

        return to_qubo(self, temperature)

    def to_bqm(self, temperature: float = 1.0) -> Any:
        """Return E(s) = -T log p(s) as a `dimod.BinaryQuadraticModel`; needs the extra `dimod`."""
        from bouncy.formats.ising import to_bqm

        return to_bqm(self, temperature)

    def to_json(self) -> dict[str, Any]:
        from bouncy.formats._terms import energy_terms

        upper = energy_terms(self, 1.0)
        content = {
            "storage": "sparse" if self.is_sparse else "dense",
            "offset": self.offset,
            "fields": self._r.tolist(),
            "couplings": [list(row) for row in zip(upper.i.tolist(), upper.j.tolist(), upper.J.tolist(), strict=True)],
        }
        return content if self.shape is None else content | {"lattice": list(self.shape)}

    @classmethod
    def from_json(cls, fields: Fields) -> MRF:
        sparse = fields.choice("storage", ("dense", "sparse")) == "sparse"
        offset = fields.number("offset", 0.0)
        r = fields.numbers("fields")
        M = _couplings_from_json(fields, len(r))
        if not sparse:
            fields.check_memory(8 * len(r) ** 2, "fields")
        shape, labels = _lattice_from_json(fields, len(r)), fields.labels(len(r))
        return cls(M if sparse else M.toarray(), r, offset=offset, shape=shape, labels=labels)

    @property
    def M(self) -> Any:
        """Couplings, (d, d), read-only: an ndarray, or a `csr_array` if the model was given sparse."""
        if not self.is_sparse:
            return read_only(self._M)
        return self._csr(read_only(self._data))

    @property
    def r(self) -> NDArray[np.float64]:
        """Fields, (d,), read-only."""
        return read_only(self._r)

    def log_prob(self, s: ArrayLike) -> NDArray[np.float64]:
        """Return the unnormalised log p(s) = offset - s.r - s'Ms/2, shape (...), of spins -1/+1, shape (..., d)."""
        spins = check_spins(match("s", s, self), self.d)
        flat = spins.reshape(-1, self.d)
        out = np.empty(flat.shape[0])
        M = self.M
        step = max(1, _BLOCK // self.d)
        for start in range(0, flat.shape[0], step):
            S = flat[start : start + step].astype(np.float64)
            fields = -(M @ S.T).T - 2.0 * self._r  # as log p = s.(-M s - 2 r)/2
            out[start : start + step] = self.offset + 0.5 * np.einsum("ni,ni->n", S, fields)
        return out.reshape(spins.shape[:-1])[()]

    def view(self) -> DenseFields | SparseFields:
        """Return the arrays for compiled loops: the model's own, shared, and fields h that are NaN until `init`."""
        h = aligned_empty(self.d)
        h[:] = np.nan
        if self.is_sparse:
            return SparseFields(self._indptr, self._indices, self._data, self._r, h, self.offset)
        return DenseFields(self._M, self._r, h, self.offset)

    def lanes(self, width: int, ladder: bool = False) -> Any:
        from bouncy.targets.field_lanes import dense_lanes, sparse_lanes  # which few runs need

        if self.is_sparse:
            return sparse_lanes(self._indptr, self._indices, self._data, self._r, self.offset, ladder)
        return dense_lanes(self._M, self._r, self.offset, width)

    def quadratic_part(self) -> Any:
        return self.M

    def edges(self) -> scipy.sparse.csr_array:
        """Return the pattern of non-zero couplings, a symmetric (d, d) `csr_array` of bool."""
        if not self.is_sparse:
            return scipy.sparse.csr_array(self._M != 0)
        return self._csr(np.ones(self._data.size, dtype=np.bool_))

    def _couplings(self) -> tuple[str, Any]:
        return "couplings M", self.M

    def _given(self, free: NDArray[np.intp], spins: NDArray[np.int8], labels: Labels) -> MRF:
        M, clamped = self.M, spins.astype(np.float64)
        fields = self._r + M @ clamped
        # Of s'Ms/2 the clamped pairs are counted once: half of what they add to each other's fields.
        offset = self.offset - 0.5 * float(clamped @ (fields + self._r))
        return MRF(M[free][:, free], fields[free], offset=offset, labels=labels)

    def _tempered(self, beta: float) -> MRF:
        return MRF(beta * self.M, beta * self._r, offset=beta * self.offset, labels=self._labels, shape=self.shape)

    def __repr__(self) -> str:
        pairs = (self._data.size if self.is_sparse else int(np.count_nonzero(self._M))) // 2
        parts = [f"d={self.d}", "sparse" if self.is_sparse else "dense", f"{pairs} pair{'s' * (pairs != 1)}"]
        if self.shape is not None:
            parts.append(f"lattice {'x'.join(map(str, self.shape))}")
        return f"MRF({', '.join(parts)})"

    def _csr(self, data: NDArray[Any]) -> scipy.sparse.csr_array:
        # scipy wants both index arrays of one type and would copy the larger to match
        indptr = self._indptr.astype(np.int32) if data.size < 2**31 else self._indptr
        index = read_only(self._indices), read_only(indptr)
        matrix = scipy.sparse.csr_array((data, *index), shape=(self.d, self.d))
        matrix.has_canonical_format = True
        return matrix


def _read_couplings(M: Any) -> Any:
    """Return M as a float64 copy, a C-contiguous ndarray or a canonical `csr_array`, square and finite."""
    matrix = _read_sparse(M) if _is_sparse(M) else check_real_array("M", M)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"M must be a square matrix of shape (d, d), got shape {matrix.shape}")
    if matrix.shape[0] == 0:
        raise ValueError("M must describe at least one site, got shape (0, 0)")
    return matrix


def _read_sparse(M: Any) -> Any:
    check_real_dtype("M", M.dtype)
    if M.ndim != 2:
        raise ValueError(f"M must be a square matrix of shape (d, d), got shape {M.shape}")
    entries = M.tocoo()
    # float64 before duplicates are added up: a narrow integer type could overflow
    with np.errstate(over="ignore", invalid="ignore"):
        data = entries.data.astype(np.float64)
        matrix = scipy.sparse.csr_array((data, (entries.row, entries.col)), shape=M.shape)
        matrix.sum_duplicates()
    matrix.eliminate_zeros()
    bad = first_true(~np.isfinite(matrix.data))
    if bad is not None:
        at = matrix.tocoo()
        raise ValueError(f"M must be finite, got {entry('M', (at.row[bad], at.col[bad]), at.data[bad])}")
    return matrix


def _read_fields(r: ArrayLike, d: int) -> NDArray[np.float64]:
    fields = check_real_array("r", r)
    if fields.ndim == 0:
        return np.full(d, float(fields))
    if fields.shape != (d,):
        raise ValueError(f"r must be a scalar or have shape ({d},) to match M, got shape {fields.shape}")
    return fields


def _check_diagonal(M: Any) -> None:
    diagonal = M.diagonal()
    at = first_true(diagonal != 0)
    if at is not None:
        raise ValueError(
            f"M must have a zero diagonal, got {entry('M', at * 2, diagonal[at])}: as s_i^2 = 1 it only shifts log p "
            "by a constant; remove it with np.fill_diagonal(M, 0) (sparse: M.setdiag(0))"
        )


def _symmetric(M: Any, symmetrize: bool) -> Any:
    """Return M, or its symmetric part where it is asymmetric by rounding or `symmetrize` allows it."""
    exact = True
    T = M.T.tocsr() if _is_sparse(M) else M.T
    for start, rows in _row_blocks(M):
        A, B = M[rows], T[rows]
        with np.errstate(over="ignore"):
            difference = abs(A - B)
        allowed = (_ROUNDING / 2) * abs(A) + (_ROUNDING / 2) * abs(B)
        exact = exact and difference.max() == 0
        where = scipy.sparse.coo_array(difference > allowed)
        if where.nnz and not symmetrize:
            i, j = start + int(where.row[0]), int(where.col[0])
            raise ValueError(
                f"M must be symmetric, got {entry('M', (i, j), M[i, j])} but {entry('M', (j, i), M[j, i])}; "
                "pass symmetrize=True to use (M + M')/2, which describes the same distribution"
            )
    if exact:
        return M
    part = 0.5 * M + 0.5 * T  # halved first: the sum of two entries may overflow
    if _is_sparse(part):
        part.eliminate_zeros()
    return part


def _check_overflow(M: Any, r: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the row scales R_i = |r_i| + sum_j |M_ij|, (d,), after checking that every energy fits in a float64."""
    with np.errstate(over="ignore"):
        row_scale = np.abs(r) + np.concatenate([abs(M[rows]).sum(axis=1) for _, rows in _row_blocks(M)])
        total = np.sum(row_scale + np.abs(r))  # bounds twice any energy and any flip cost, as M is symmetric
    if np.isfinite(total):
        return row_scale  # type: ignore[no-any-return]
    bad = first_true(~np.isfinite(row_scale))
    i = int(np.argmax(row_scale)) if bad is None else bad[0]
    row = abs(M[[i]])
    row = row.toarray()[0] if _is_sparse(row) else row[0]
    j = int(np.argmax(row))
    largest = entry("M", (i, j), M[i, j]) if row[j] > abs(r[i]) else entry("r", (i,), r[i])
    what = (
        "the energy sum_i |r_i| + sum_ij |M_ij|/2" if bad is None else f"the field |r_{i}| + sum_j |M_{i}j| of row {i}"
    )
    raise ValueError(f"{what} must fit in a float64 but overflows (largest term {largest}); rescale M and r")


def _check_range(M: Any, r: NDArray[np.float64], row_scale: NDArray[np.float64]) -> None:
    """Raise if a term that matters to a probability is lost in the rounding of its row's local field."""
    floor = row_scale / _RANGE
    for start, rows in _row_blocks(M):
        if floor[rows].max() <= _NEGLIGIBLE:
            continue
        terms = scipy.sparse.coo_array(M[rows])
        weak = (abs(terms.data) > _NEGLIGIBLE) & (abs(terms.data) < floor[rows][terms.row])
        at = first_true(weak)
        if at is not None:
            i, j = start + int(terms.row[at]), int(terms.col[at])
            raise _range_error(entry("M", (i, j), terms.data[at]), i, row_scale[i])
    at = first_true((np.abs(r) > _NEGLIGIBLE) & (np.abs(r) < floor))
    if at is not None:
        raise _range_error(entry("r", at, r[at]), at[0], row_scale[at])


def _range_error(term: str, i: int, scale: float) -> ValueError:
    return ValueError(
        f"{term} is more than 2^40 times smaller than |r_{i}| + sum_j |M_{i}j| = {scale:g} of its row, so it would be "
        "lost in the rounding of the local field: drop the weak terms (set them to 0), or clamp the strongly coupled "
        "spins (merge each into its neighbour) and sample the rest"
    )


def _row_blocks(M: Any) -> Iterator[tuple[int, slice]]:
    """Yield (first row, slice of rows) that cover M; a sparse matrix is one block."""
    d = M.shape[0]
    step = d if _is_sparse(M) else max(1, _BLOCK // d)
    for start in range(0, d, step):
        yield start, slice(start, min(start + step, d))


def _read_shape(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, list | tuple | np.ndarray):
        sides: tuple[int, ...] = (check_count("shape", shape),)
    elif len(shape) == 0:
        raise ValueError(f"shape must be an integer or a non-empty sequence of integers, got {shape!r}")
    else:
        sides = tuple(check_count(f"shape[{axis}]", side) for axis, side in enumerate(shape))
    if math.prod(sides) > np.iinfo(np.int32).max:
        raise ValueError(f"shape {sides} has {math.prod(sides):.3g} sites; at most 2^31 - 1 can be numbered")
    return sides


def _read_sides(shape: Any, d: int) -> tuple[int, ...]:
    """Return the sides of a lattice of d sites."""
    sides = _read_shape(shape)
    if math.prod(sides) != d:
        raise ValueError(f"shape must be the sides of a lattice of {d} sites, got {sides}")
    return sides


def _per_dimension(coupling: Any, n: int) -> NDArray[np.float64]:
    couplings = check_real_array("coupling", coupling)
    if couplings.ndim > 0 and couplings.shape != (n,):
        raise ValueError(
            f"coupling must be a scalar or one number per dimension ({n}), got an array of shape {couplings.shape}"
        )
    return np.broadcast_to(couplings, (n,))


def _lattice_couplings(
    sides: tuple[int, ...], couplings: NDArray[np.float64], periodic: bool
) -> scipy.sparse.coo_array:
    """Return M = -coupling * (number of bonds between i and j), with duplicates left to be added up."""
    d = int(np.prod(sides))
    site = np.arange(d, dtype=np.int32).reshape(sides)
    first, second, value = [], [], []
    for axis, side in enumerate(sides):
        if side == 1:
            continue
        a = site if periodic else site.take(range(side - 1), axis)
        b = np.roll(site, -1, axis) if periodic else site.take(range(1, side), axis)
        first.append(a.ravel())
        second.append(b.ravel())
        value.append(np.full(a.size, -couplings[axis]))
    if not value:
        return scipy.sparse.coo_array((d, d))
    i, j, bond = np.concatenate(first), np.concatenate(second), np.concatenate(value)
    return scipy.sparse.coo_array((np.r_[bond, bond], (np.r_[i, j], np.r_[j, i])), shape=(d, d))


def _couplings_from_json(fields: Fields, d: int) -> scipy.sparse.csr_array:
    from bouncy.formats.files.json_fields import listed, number, site

    first, second, values = [], [], []
    for k, row in enumerate(fields.rows("couplings")):
        name = f"couplings[{k}]"
        i, j, value = listed(fields.source, row, name, 3)
        first.append(site(fields.source, i, f"{name}[0]", d))
        second.append(site(fields.source, j, f"{name}[1]", d))
        values.append(number(fields.source, value, f"{name}[2]"))
    a, b = np.array(first, np.int64), np.array(second, np.int64)
    same = first_true(a == b)
    if same is not None:
        k = same[0]
        raise fields.source.error(f"couples site {a[k]} to itself", field=f"couplings[{k}]")
    _, places = np.unique(np.minimum(a, b) * d + np.maximum(a, b), return_index=True)
    if places.size < a.size:
        k = int(np.setdiff1d(np.arange(a.size), places)[0])
        raise fields.source.error(f"couples sites {a[k]} and {b[k]} again", field=f"couplings[{k}]")
    return scipy.sparse.csr_array((np.r_[values, values], (np.r_[a, b], np.r_[b, a])), shape=(d, d), dtype=np.float64)


def _lattice_from_json(fields: Fields, d: int) -> tuple[int, ...] | None:
    from bouncy.formats.files._sites import is_lattice
    from bouncy.formats.files.json_fields import listed, shown

    value = fields.take("lattice", None)
    if value is None:
        return None
    sides = tuple(listed(fields.source, value, "lattice"))
    if any(type(side) is not int for side in sides) or not is_lattice(sides, d):
        raise fields.source.error(f"must hold the sides of a lattice of {d} sites, got {shown(value)}", field="lattice")
    return sides


def _is_sparse(M: Any) -> bool:
    return bool(scipy.sparse.issparse(M))


EXAMPLES = {"mrf-dense": lambda: MRF.random(3), "mrf-sparse": lambda: MRF.ising(3)}
