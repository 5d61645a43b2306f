"""The public face of the pairwise model: constructors against brute-force formulas, and every refusal by name."""

from __future__ import annotations

import itertools
import pickle

import numba
import numpy as np
import pytest
import scipy.sparse as sp

from bouncy.enumeration import exact
from bouncy.targets.mrf import MRF

STORAGES = {"dense": np.array, "csr": sp.csr_array, "coo_matrix": sp.coo_matrix, "lil": sp.lil_array}


@pytest.fixture(params=list(STORAGES))
def store(request):
    """Return a function that stores an ndarray in one of the accepted forms."""
    return STORAGES[request.param]


def symmetric(d, *entries):
    """Return a (d, d) matrix that is zero but for the given (i, j, value) and their mirror images."""
    M = np.zeros((d, d))
    for i, j, value in entries:
        M[i, j] = M[j, i] = value
    return M


def brute_force_log_prob(M, r, s):
    d = len(s)
    pairs = sum(s[i] * M[i, j] * s[j] for i in range(d) for j in range(d))
    return -sum(s[i] * r[i] for i in range(d)) - 0.5 * pairs


# Values


def test_log_prob_is_the_formula_for_every_storage(store):
    """Would catch a wrong sign, a missing 1/2 or a pair counted twice, in either storage."""
    rng = np.random.default_rng(1)
    M = symmetric(4, (0, 1, 0.7), (0, 3, -1.2), (2, 3, 0.4))
    r = rng.standard_normal(4)
    t = MRF(store(M), r)
    for s in itertools.product([-1, 1], repeat=4):
        assert t.log_prob(s) == pytest.approx(brute_force_log_prob(M, r, s), rel=1e-13)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.float64])
def test_log_prob_of_a_batch_is_that_of_its_rows(store, dtype, monkeypatch):
    """Would catch a batch that is reshaped wrongly, cut wrongly into blocks, or summed in a narrow type."""
    monkeypatch.setattr("bouncy.targets.mrf._BLOCK", 20)
    rng = np.random.default_rng(2)
    t = MRF(store(symmetric(5, (0, 4, 300.0), (1, 2, -0.5))), rng.standard_normal(5))
    s = rng.choice([-1, 1], size=(3, 7, 5)).astype(dtype)
    rows = [[float(t.log_prob(state)) for state in chain] for chain in s]
    np.testing.assert_allclose(t.log_prob(s), rows, rtol=1e-14)
    assert t.log_prob(s[:, :0]).shape == (3, 0)
    assert t.log_prob(s[0, 0]).shape == ()


def test_random_is_the_papers_ensemble():
    """Would catch a wrong scale of M or r (8 standard errors: false alarm below 1e-14, sees 2 %) or a loose seed."""
    d = 300
    t = MRF.random(d, sigma_M=0.3, sigma_r=0.7, seed=5)
    off_diagonal = t.M[np.triu_indices(d, 1)]
    assert np.std(off_diagonal) == pytest.approx(0.3 / np.sqrt(2), abs=8 * 0.3 / np.sqrt(2) / np.sqrt(d * (d - 1)))
    assert np.std(t.r) == pytest.approx(0.7, abs=8 * 0.7 / np.sqrt(2 * d))
    assert np.array_equal(t.M, t.M.T)
    assert not np.diagonal(t.M).any()
    again, other = (MRF.random(d, sigma_M=0.3, sigma_r=0.7, seed=seed) for seed in (np.random.SeedSequence(5), 6))
    assert np.array_equal(t.M, again.M)
    assert np.array_equal(t.r, again.r)
    assert not np.array_equal(t.M, other.M)


@pytest.mark.parametrize("shape", [1, 2, 5, (1, 1), (2, 2), (3, 1, 2), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("periodic", [True, False])
def test_ising_is_the_literal_sum_over_bonds(shape, periodic):
    """Would catch a missing or doubled bond, a wrong order of sites, a wrong sign, or axes that are swapped."""
    sides = (shape,) if isinstance(shape, int) else shape
    rng = np.random.default_rng(3)
    couplings, field = rng.standard_normal(len(sides)), rng.standard_normal(sides)
    t = MRF.ising(shape, couplings, field, periodic)
    assert t.shape == sides
    assert t.is_sparse
    for _ in range(5):
        s = rng.choice([-1, 1], size=sides)
        expected = np.sum(field * s)
        for site in np.ndindex(*sides):
            for axis, side in enumerate(sides):
                following = list(site)
                following[axis] += 1
                if side > 1 and (periodic or following[axis] < side):
                    following[axis] %= side
                    expected += couplings[axis] * s[site] * s[tuple(following)]
        assert t.log_prob(s.ravel()) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_ising_with_scalars_uses_them_everywhere():
    """Would catch a scalar coupling or field that reaches only one dimension or site."""
    t = MRF.ising((3, 4), coupling=0.25, field=0.5)
    assert set(t.M.data) == {-0.25}
    assert set(np.diff(t.M.indptr)) == {4}
    assert np.array_equal(t.r, np.full(12, -0.5))
    assert MRF.ising(1).M.nnz == 0
    assert MRF.ising(2, 1.0).M.toarray().tolist() == [[0, -2], [-2, 0]]


def test_symmetrize_keeps_the_distribution(store):
    """Would catch a symmetrised matrix that is not (M + M')/2, for instance M + M'."""
    M = np.array([[0, 1, 0], [3, 0, 0], [0, 5, 0]])
    t = MRF(store(M), symmetrize=True)
    assert (t.M.toarray() if t.is_sparse else t.M).tolist() == [[0, 2, 0], [2, 0, 2.5], [0, 2.5, 0]]


def test_asymmetry_of_rounding_is_averaged_away(store):
    """Would catch a refusal of matrices computed as A @ A.T, or a stored M whose halves differ in the last bit."""
    M = symmetric(2, (0, 1, 1.0))
    M[0, 1] += 5e-13
    t = MRF(store(M))
    stored = t.M.toarray() if t.is_sparse else t.M
    assert np.array_equal(stored, stored.T)
    assert stored[0, 1] == pytest.approx(1.0, abs=1e-12)


# Storage


def test_sparse_input_is_stored_canonically():
    """Would catch duplicates that overwrite each other or wrap around in int8, and zeros that count as couplings."""
    rows, columns = [0, 1, 0, 1, 2, 0], [1, 0, 1, 0, 0, 2]
    data = np.array([100, 100, 100, 100, 0, 0], dtype=np.int8)
    t = MRF(sp.coo_array((data, (rows, columns)), shape=(3, 3)))
    view = t.view()
    assert view.indptr.tolist() == [0, 1, 2, 2]
    assert view.indices.tolist() == [1, 0]
    assert view.data.tolist() == [200, 200]
    assert repr(t) == "MRF(d=3, sparse, 1 pair)"


@pytest.mark.parametrize("store", [np.array, sp.csr_array, sp.lil_array])
def test_what_is_kept_is_a_copy_that_users_cannot_change(store):
    """Would catch a model that changes behind a running chain when the caller reuses an array."""
    given_M, given_r = store(symmetric(3, (0, 1, 1.0))), np.ones(3)
    t = MRF(given_M, given_r)
    given_M[0, 1] = 7.0
    given_r[0] = 7.0
    assert t.M[0, 1] == 1.0
    assert t.r[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        t.r[0] = 2.0
    with pytest.raises(ValueError, match="read-only"):
        t.M[0, 1] = 2.0


def test_compiled_loops_see_one_type_per_storage():
    """Would catch a second compilation (seconds for the user) for read-only, Fortran-ordered or unpickled models."""
    M = symmetric(3, (0, 1, 1.0), (1, 2, -1.0))
    read_only = M.copy()
    read_only.flags.writeable = False
    wide = sp.csr_array(M)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    dense = [M, read_only, np.asfortranarray(M), M.astype(">f4"), M.astype(np.int8), M.tolist(), M[::-1, ::-1]]
    sparse = [sp.csr_array(M), sp.csc_matrix(M), sp.dok_array(M), wide]
    for family in (dense, sparse):
        models = [MRF(member) for member in family] + [MRF(family[0], read_only[0])]
        models += [MRF(family[0], 1), pickle.loads(pickle.dumps(models[0]))]
        assert len({numba.typeof(model.view()) for model in models}) == 1
    assert numba.typeof(MRF.ising(3).view()) == numba.typeof(MRF(sparse[0]).view())


def test_edges_are_the_nonzero_couplings(store):
    """Would catch a pattern that includes the diagonal or zeros, or is not of the same form for both storages."""
    edges = MRF(store(symmetric(4, (0, 3, -2.0), (1, 2, 1e-300)))).edges()
    assert isinstance(edges, sp.csr_array)
    assert edges.dtype == np.bool_
    assert sorted(zip(*edges.nonzero(), strict=True)) == [(0, 3), (1, 2), (2, 1), (3, 0)]


@pytest.mark.parametrize("M", [[[0.0]], sp.csr_array((1, 1))])
def test_one_site_works(M):
    """Would catch code that assumes a neighbour."""
    t = MRF(M, 0.5)
    assert t.log_prob([[1], [-1]]).tolist() == [-0.5, 0.5]
    assert t.edges().nnz == 0
    assert t.d == 1


def test_repr_says_what_matters():
    """Would catch a repr that prints whole matrices."""
    assert repr(MRF.random(3)) == "MRF(d=3, dense, 3 pairs)"
    assert repr(MRF.ising((8, 4))) == "MRF(d=32, sparse, 64 pairs, lattice 8x4)"


# Refusals: each test would catch bad input that gets through to a compiled loop, or a message that names nothing


@pytest.mark.parametrize(
    ("M", "error", "message"),
    [
        (symmetric(3, (1, 2, np.nan)), ValueError, r"M\[1, 2\] = nan"),
        (symmetric(3, (0, 2, -np.inf), (1, 2, np.nan)), ValueError, r"M\[0, 2\] = -inf"),
        (np.diag([0.0, 0.0, 2.0]), ValueError, r"zero diagonal.*M\[2, 2\] = 2\.0.*fill_diagonal"),
        (
            np.array([[0, 1, 0], [1, 0, 0.5], [0, 0.25, 0]]),
            ValueError,
            r"M\[1, 2\] = 0\.5.*M\[2, 1\] = 0\.25.*symmetrize",
        ),
        (np.array([[0, 1], [0, 0.0]]), ValueError, r"M\[0, 1\] = 1\.0 but M\[1, 0\] = 0\.0"),
        (np.array([[0, 1], [1 + 1e-11, 0.0]]), ValueError, r"M\[0, 1\] = 1\.0 but M\[1, 0\] = 1\.00000000001"),
        (np.array([[0, 1e308], [-1e308, 0.0]]), ValueError, r"M\[0, 1\] = 1e\+308 but M\[1, 0\] = -1e\+308"),
        (symmetric(3, (1, 0, 1e308), (1, 2, -1.5e308)), ValueError, r"of row 1 .*overflows.*M\[1, 2\] = -1\.5e\+308"),
        (symmetric(2, (0, 1, 1.5e308)), ValueError, r"energy .*overflows.*M\[0, 1\] = 1\.5e\+308"),
        (np.zeros((2, 3)), ValueError, r"square.*\(2, 3\)"),
        (np.zeros((0, 0)), ValueError, r"at least one site.*\(0, 0\)"),
        (np.zeros((2, 2), dtype=bool), TypeError, "dtype bool"),
        (np.zeros((2, 2), dtype=complex), TypeError, "dtype complex128"),
    ],
)
@pytest.mark.parametrize("storage", [np.array, sp.csr_array, sp.coo_matrix])
def test_bad_couplings_are_refused_by_name(M, error, message, storage):
    with pytest.raises(error, match=message):
        MRF(storage(M))


@pytest.mark.parametrize(
    ("M", "error", "message"),
    [
        (np.zeros((2, 2), dtype=object), TypeError, "dtype object"),
        ([["0", "1"], ["1", "0"]], TypeError, "dtype <U1"),
        ([[0, 1], [1]], TypeError, r"rectangular.*\[\[0, 1\], \[1\]\]"),
        (None, TypeError, "dtype object"),
        (np.ma.masked_array(np.zeros((2, 2))), TypeError, "masked"),
        (0.5, ValueError, r"got shape \(\)"),
        (np.zeros(4), ValueError, r"got shape \(4,\)"),
        (np.zeros((2, 2, 2)), ValueError, r"got shape \(2, 2, 2\)"),
        (sp.coo_array(np.ones(4)), ValueError, r"got shape \(4,\)"),
    ],
)
def test_what_is_no_matrix_is_refused(M, error, message):
    with pytest.raises(error, match=message):
        MRF(M)


@pytest.mark.parametrize(
    ("r", "error", "message"),
    [
        ([0.0, np.nan, np.inf], ValueError, r"r\[1\] = nan"),
        (np.inf, ValueError, "r = inf"),
        ([1.0, 2.0], ValueError, r"shape \(3,\).*got shape \(2,\)"),
        (np.zeros((3, 1)), ValueError, r"got shape \(3, 1\)"),
        (1e308, ValueError, r"energy .*overflows.*r\[0\] = 1e\+308"),
        (True, TypeError, "dtype bool"),
        (1j, TypeError, "dtype complex128"),
        (None, TypeError, "dtype object"),
        ("a", TypeError, "dtype <U1"),
    ],
)
def test_bad_fields_are_refused_by_name(r, error, message):
    with pytest.raises(error, match=message):
        MRF(np.zeros((3, 3)), r)


@pytest.mark.parametrize("storage", [np.array, sp.csr_array])
def test_terms_lost_in_the_rounding_of_a_field_are_refused(storage):
    """Would catch couplings whose digits vanish from the incremental fields, and so a wrong law without an error."""
    strong = 2.0**41
    with pytest.raises(ValueError, match=r"M\[1, 2\] = 0\.5 .*\|r_1\|.* = 2\.19902e\+12.*drop.*clamp"):
        MRF(storage(symmetric(4, (0, 1, strong), (1, 2, 0.5), (1, 3, 0.5))))
    with pytest.raises(ValueError, match=r"r\[2\] = 1\.0 .*\|r_2\|"):
        MRF(storage(symmetric(3, (1, 2, strong))), [0.0, 0.0, 1.0])
    with pytest.raises(ValueError, match=r"M\[0, 2\] = 1\.0 .*\|r_0\|"):
        MRF(storage(symmetric(3, (0, 2, 1.0))), [-strong, 0.0, 0.0])


@pytest.mark.parametrize("storage", [np.array, sp.csr_array])
def test_terms_that_are_kept_or_cannot_matter_are_accepted(storage):
    """Would catch a range rule that refuses uniformly huge, separate or negligible couplings."""
    MRF(storage(symmetric(3, (0, 1, 1e300), (1, 2, -1e300))))
    MRF(storage(symmetric(4, (0, 1, 1e300), (2, 3, 1e-3))))
    MRF(storage(symmetric(3, (0, 1, 1e300), (1, 2, 1e-9))), [1e-12, 0.0, 0.0])
    MRF(storage(symmetric(3, (0, 1, 2.0**39), (1, 2, 1.0))))


def test_refusals_look_at_every_block_of_rows(monkeypatch):
    """Would catch checks on a large dense matrix that stop at, or misnumber rows after, the first block."""
    monkeypatch.setattr("bouncy.targets.mrf._BLOCK", 20)
    M = np.zeros((10, 10))
    M[8, 3] = 1.0
    with pytest.raises(ValueError, match=r"M\[3, 8\] = 0\.0 but M\[8, 3\] = 1\.0"):
        MRF(M)
    with pytest.raises(ValueError, match=r"M\[6, 7\] = 1\.0 .*\|r_6\|"):
        MRF(symmetric(10, (6, 9, 1e13), (7, 6, 1.0)))
    with pytest.raises(ValueError, match=r"of row 7 .*M\[7, 8\] = 1e\+308"):
        MRF(symmetric(10, (7, 8, 1e308), (7, 9, 1e308)))


@pytest.mark.parametrize(
    ("s", "error", "message"),
    [
        ([1, -1, 0], ValueError, r"s\[2\] = 0; .*2 \* b - 1"),
        ([[1, 1, 1], [1, np.nan, 1]], ValueError, r"s\[1, 1\] = nan"),
        (np.array([1, -1, -128], dtype=np.int8), ValueError, r"s\[2\] = -128"),
        ([1, -1], ValueError, r"\(\.\.\., 3\).*got shape \(2,\)"),
        (1, ValueError, r"got shape \(\)"),
        ([True, False, True], TypeError, r"dtype bool; .*2 \* b"),
        (["a", "b", "c"], TypeError, "dtype <U1"),
        ([[1, 1, 1], [1]], TypeError, "rectangular"),
    ],
)
def test_bad_spins_are_refused_by_name(s, error, message):
    with pytest.raises(error, match=message):
        MRF(np.zeros((3, 3))).log_prob(s)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"shape": 0}, ValueError, "shape must be an integer >= 1, got 0"),
        ({"shape": (3, -1)}, ValueError, r"shape\[1\].*got -1"),
        ({"shape": (3, 2.0)}, TypeError, r"shape\[1\].*got 2\.0 of type float"),
        ({"shape": ()}, ValueError, r"got \(\)"),
        ({"shape": "ab"}, TypeError, "got 'ab' of type str"),
        ({"shape": (3, 3), "coupling": [1, 2, 3]}, ValueError, r"per dimension \(2\), got .* \(3,\)"),
        ({"shape": 3, "coupling": np.nan}, ValueError, "coupling = nan"),
        ({"shape": (3, 2), "field": np.zeros((2, 3))}, ValueError, r"\(3, 2\), got shape \(2, 3\)"),
        ({"shape": 3, "field": [0, np.inf, 0]}, ValueError, r"field\[1\] = inf"),
    ],
)
def test_bad_lattices_are_refused_by_name(arguments, error, message):
    with pytest.raises(error, match=message):
        MRF.ising(**arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"d": 0}, ValueError, "d must be an integer >= 1, got 0"),
        ({"d": 2.5}, TypeError, "got 2.5 of type float"),
        ({"d": True}, TypeError, "got True of type bool"),
        ({"d": 2, "sigma_M": -0.1}, ValueError, "sigma_M .*got -0.1"),
        ({"d": 2, "sigma_r": np.inf}, ValueError, "sigma_r .*got inf"),
        ({"d": 2, "sigma_r": "1"}, TypeError, "sigma_r .*got '1' of type str"),
        ({"d": 2, "seed": -1}, ValueError, "seed .*got -1"),
        ({"d": 2, "seed": 1.5}, TypeError, "seed .*got 1.5 of type float"),
        ({"d": 2, "seed": np.random.default_rng(0)}, TypeError, "seed .*Generator"),
    ],
)
def test_bad_ensembles_are_refused_by_name(arguments, error, message):
    with pytest.raises(error, match=message):
        MRF.random(**arguments)


def test_a_seed_sequence_is_not_used_up():
    """Would catch a second call with the same SeedSequence that gives another result."""
    seed = np.random.SeedSequence(3)
    assert np.array_equal(MRF.random(4, seed=seed).M, MRF.random(4, seed=seed).M)
    assert seed.n_children_spawned == 0


@pytest.mark.parametrize("flag", ["no", (True, False), 1, None])
def test_flags_are_flags(flag):
    """Would catch a tuple per dimension, or the word "no", taken for True."""
    with pytest.raises(TypeError, match="periodic must be True or False"):
        MRF.ising((3, 3), periodic=flag)
    with pytest.raises(TypeError, match="symmetrize must be True or False"):
        MRF(np.zeros((2, 2)), symmetrize=flag)


@pytest.mark.parametrize("storage", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_clamped_pairs_are_counted_once(storage):
    """Would catch a constant that counts pairs of clamped spins twice, or not at all, and fields that forget them."""
    whole = MRF.random(7, sigma_M=0.5, sigma_r=0.3, seed=1)
    target = MRF(storage(whole.M), whole.r, offset=0.7, labels=["a", "b", "c", "d", "e", "f", "g"])
    given = target.clamp({"b": 1, "c": -1, "f": 1})
    assert isinstance(given, MRF)
    assert given.is_sparse == target.is_sparse
    assert given.labels == ("a", "d", "e", "g")
    s = np.array([[1, -1, -1, 1], [-1, -1, 1, 1]])
    full = given.complete(s)
    assert full.tolist() == [[1, 1, -1, -1, -1, 1, 1], [-1, 1, -1, -1, 1, 1, 1]]
    assert np.allclose(given.log_prob(s), target.log_prob(full), rtol=1e-13)
    assert given.clamp({"d": -1}).complete(s[:, [0, 2, 3]]).tolist() == full.tolist()


@pytest.mark.parametrize(
    ("evidence", "error", "message"),
    [
        ({"x": 1}, ValueError, r"evidence names the site 'x', which is not a label of MRF"),
        ({0: 0}, ValueError, r"evidence\[0\] must be a spin, -1 or \+1, got 0"),
        ({0: True}, ValueError, r"evidence\[0\] must be a spin, -1 or \+1, got True"),
        ([0, 1], TypeError, r"evidence must map labels to spins, as in \{0: \+1\}, got list"),
        ({0: 1, 1: 1, 2: -1}, ValueError, "evidence clamps all 3 sites"),
    ],
)
def test_evidence_is_checked(evidence, error, message):
    """Would catch evidence on another site than meant, or a spin that is none."""
    with pytest.raises(error, match=message):
        MRF.random(3).clamp(evidence)


@pytest.mark.parametrize(("beta", "error"), [(-1.0, ValueError), (np.nan, ValueError), ("1", TypeError)])
def test_beta_is_checked(beta, error):
    """Would catch a temperature below zero."""
    with pytest.raises(error, match="beta must be a finite number >= 0"):
        MRF.random(3).tempered(beta)


def test_a_tempered_lattice_is_a_lattice():
    """Would catch a shape that is lost, without which a lattice cannot be drawn."""
    cold = MRF.ising((3, 4), coupling=0.2, field=0.1).tempered(2.0)
    assert cold.shape == (3, 4)
    assert np.allclose(cold.M.toarray(), MRF.ising((3, 4), coupling=0.4).M.toarray())
    assert np.allclose(cold.r, -0.2)


def test_offset_is_a_constant():
    """Would catch an offset with the wrong sign, or one that changes a distribution."""
    target = MRF([[0.0, 0.3], [0.3, 0.0]], 0.1, offset=2.5)
    plain = MRF([[0.0, 0.3], [0.3, 0.0]], 0.1)
    assert target.log_prob([1, -1]) == plain.log_prob([1, -1]) + 2.5
    assert exact(target).log_z == pytest.approx(exact(plain).log_z + 2.5)
    with pytest.raises(ValueError, match="offset must be a finite number, got inf"):
        MRF([[0.0]], offset=np.inf)
