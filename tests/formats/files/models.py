"""Small models of every kind that a file can hold, drawn by hypothesis, and their contents for comparison."""

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from bouncy.targets.factor_graph import FactorGraph
from bouncy.targets.mrf import MRF
from bouncy.targets.polynomial import Polynomial
from bouncy.targets.rbm import RBM

VALUES = st.floats(-20, 20)
SCALARS = st.one_of(st.text(max_size=4), st.integers(), st.floats(allow_nan=False, allow_infinity=False))
LABELS = st.one_of(SCALARS, st.tuples(st.integers(0, 9), SCALARS), st.none())


@st.composite
def mrfs(draw, labels=LABELS):
    """Draw a field of 1 to 5 sites, dense or sparse, half of them with labels and some with a lattice's shape."""
    d = draw(st.integers(1, 5))
    M = np.zeros((d, d))
    for i in range(d):
        for j in range(i):
            M[i, j] = M[j, i] = draw(st.one_of(st.just(0.0), VALUES))
    r = draw(st.lists(VALUES, min_size=d, max_size=d))
    names = draw(st.one_of(st.none(), st.lists(labels, min_size=d, max_size=d, unique=True)))
    M, shape = sp.csr_array(M) if draw(st.booleans()) else M, draw(st.sampled_from([None, (d,), (1, d)]))
    return MRF(M, r, offset=draw(VALUES), labels=names, shape=shape)


@st.composite
def polynomials(draw):
    """Draw a polynomial of 1 to 5 variables of either kind."""
    d = draw(st.integers(1, 5))
    names = draw(st.lists(LABELS, min_size=d, max_size=d, unique=True))
    terms = draw(st.lists(st.lists(st.sampled_from(names), max_size=4), max_size=5))
    values = draw(st.lists(VALUES, min_size=len(terms), max_size=len(terms)))
    kind = draw(st.sampled_from(["SPIN", "BINARY"]))
    return Polynomial(terms, values, vartype=kind, labels=names, temperature=draw(st.floats(0.1, 10)))


@st.composite
def factor_graphs(draw, labels=LABELS):
    """Draw a graph of 1 to 4 sites whose tables have some zeros."""
    d = draw(st.integers(1, 4))
    names = draw(st.lists(labels, min_size=d, max_size=d, unique=True))
    entries = st.one_of(st.just(0.0), st.floats(0.01, 100))
    factors = []
    for _ in range(draw(st.integers(0, 4))):
        scope = draw(st.lists(st.sampled_from(names), max_size=3, unique=True))
        table = draw(st.lists(entries, min_size=2 ** len(scope), max_size=2 ** len(scope)).filter(any))
        factors.append((tuple(scope), np.reshape(table, (2,) * len(scope))))
    return FactorGraph(factors, labels=names)


@st.composite
def rbms(draw):
    """Draw a restricted Boltzmann machine of up to 3 visible and 3 hidden units."""
    rows, columns = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    b, c = (draw(st.lists(VALUES, min_size=n, max_size=n)) for n in (rows, columns))
    W = draw(st.lists(VALUES, min_size=rows * columns, max_size=rows * columns))
    return RBM(np.reshape(W, (rows, columns)), b, c, units=draw(st.sampled_from(["binary", "spin"])))


def dense(target):
    """Return the couplings of a field as an array."""
    return target.M.toarray() if target.is_sparse else np.asarray(target.M)


def contents(target):
    """Return all that defines a target, as values that can be compared with ==."""
    own = {
        MRF: lambda t: (dense(t).tolist(), t.r.tolist(), t.offset, t.shape, t.is_sparse),
        Polynomial: lambda t: (list(t.to_dict().items()), t.vartype, t.temperature),
        FactorGraph: lambda t: [(scope, table.tolist()) for scope, table in t.factors],
        RBM: lambda t: (t.W.tolist(), t.b.tolist(), t.c.tolist(), t.units),
    }
    return type(target), target.labels, [type(label) for label in target.labels], own[type(target)](target)
