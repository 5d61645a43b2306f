"""Equal-time batches whose length doubles as the run grows, so that their number stays bounded."""

from __future__ import annotations

from bouncy._compile import helper


@helper
def merge(batches, n):
    """Add rows 2k and 2k + 1 of `batches` into row k, for the first n rows."""
    for k in range(n // 2):
        for j in range(batches.shape[1]):
            batches[k, j] = batches[2 * k, j] + batches[2 * k + 1, j]
