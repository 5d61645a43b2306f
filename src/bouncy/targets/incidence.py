"""Groups of sites: the terms of a polynomial, the factors of a graph.

Both kinds of model are a list of groups of labelled sites, and a flip needs the groups of its site.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence, Sized
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bouncy._labels import check_labels
from bouncy._validation import check_count

# About the memory of a site, for documents that give a number of sites without a field for each.
BYTES_PER_SITE = 64
# Pairs beyond which a pattern of them is not worth its memory.
_MAX_PAIRS = 2**24


def number_sites(
    groups: Iterable[tuple[Hashable, ...]], d: Any, labels: Any, name: str
) -> tuple[tuple[Hashable, ...], list[tuple[int, ...]]]:
    """Return the labels of the sites, (d,), and the groups with each label replaced by the number of its site.

    Sites are 0, ..., d - 1 if `d` is given alone, else those of `labels`, else in the order of first appearance. In
    errors, group k is `name[k]`.
    """
    known = _known_labels(d, labels)
    site = {} if known is None else {label: i for i, label in enumerate(known)}
    numbered = []
    for k, group in enumerate(groups):
        for label in group:
            if label not in site and known is not None:
                raise ValueError(f"{name}[{k}] names the site {label!r}, which is not one of {_shown(known)}")
            site.setdefault(label, len(site))
        numbered.append(tuple(site[label] for label in group))
    if not site:
        raise ValueError(
            f"{name} must name at least one site, got none; pass d= or labels= to say which sites there are"
        )
    return tuple(site), numbered


def by_label(groups: Iterable[tuple[int, ...]], labels: Sequence[Hashable]) -> list[tuple[Hashable, ...]]:
    """Return groups with the number of each site replaced by its label."""
    return [tuple(labels[i] for i in group) for group in groups]


def _known_labels(d: Any, labels: Any) -> tuple[Hashable, ...] | None:
    if labels is None:
        return None if d is None else tuple(range(check_count("d", d)))
    n = len(labels) if isinstance(labels, Sized) else 0
    return check_labels(labels, n if d is None else check_count("d", d))


def _shown(labels: tuple[Hashable, ...]) -> str:
    names = [repr(label) for label in labels]
    return f"the {len(names)} sites {', '.join(names if len(names) <= 6 else [*names[:3], '...', names[-1]])}"


def by_site(
    groups: Sequence[Sequence[int]], d: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.int64]]:
    """Return (indptr, group, place): site i is at `place[k]` of `group[k]` for indptr[i] <= k < indptr[i + 1].

    Indices are unsigned, which skips the wraparound check in compiled code: that takes most of the time.
    """
    sizes = np.array([len(group) for group in groups], dtype=np.int64)
    sites = flat(groups)
    order = np.argsort(sites, kind="stable")
    group = np.repeat(np.arange(sizes.size, dtype=np.uint32), sizes)
    place = np.arange(sites.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    indptr = np.cumsum(np.r_[0, np.bincount(sites, minlength=d)]).astype(np.uint64)
    return indptr, group[order], place[order]


def flat(groups: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Return all sites of all groups, one after the other."""
    return np.fromiter((site for group in groups for site in group), dtype=np.int64)


def pairs_in(groups: Sequence[Sequence[int]], d: int) -> scipy.sparse.csr_array | None:
    """Return the symmetric (d, d) pattern of sites that share a group, or None beyond 2^24 pairs."""
    by_size: dict[int, list[Sequence[int]]] = {}
    for group in groups:
        by_size.setdefault(len(group), []).append(group)
    if sum(len(same) * size * (size - 1) // 2 for size, same in by_size.items()) > _MAX_PAIRS:
        return None
    first, second = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for size, same in by_size.items():
        sites = np.array(same, dtype=np.int64).reshape(-1, size)
        a, b = np.triu_indices(size, 1)
        first.append(sites[:, a].ravel())
        second.append(sites[:, b].ravel())
    i, j = np.concatenate(first), np.concatenate(second)
    pattern = scipy.sparse.csr_array((np.ones(2 * i.size, bool), (np.r_[i, j], np.r_[j, i])), shape=(d, d))
    pattern.sum_duplicates()
    return pattern
