"""A binary heap of sites, ordered by a time that each of them has."""

from __future__ import annotations

from bouncy._compile import helper


@helper
def arrange(queue, due):
    """Bring the sites in `queue` into heap order: none is due before the one above it. O(d)."""
    for k in range(queue.size // 2 - 1, -1, -1):
        sift_down(queue, due, k)


@helper
def sift_down(queue, due, k):
    """Move the site at place k down until no site below it is due earlier. O(log d)."""
    n = queue.size
    site = queue[k]
    time = due[site]
    while 2 * k + 1 < n:
        below = 2 * k + 1
        earliest = due[queue[below]]
        if below + 1 < n and due[queue[below + 1]] < earliest:
            below += 1
            earliest = due[queue[below]]
        if time <= earliest:
            break
        queue[k] = queue[below]
        k = below
    queue[k] = site
