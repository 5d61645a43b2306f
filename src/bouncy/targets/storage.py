"""Dense or sparse: in which storage of couplings a flip is cheaper."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

# A flip reads a row of a dense matrix in one vectorised pass, but goes through the entries of a sparse row one by one:
# an index, a coupling, a field to fetch and put back. Measured, a sparse entry takes as long as eight dense ones while
# the matrix fits in cache, and as long as four where rows come from memory. In a row of four cache lines it does not
# matter.
_ALWAYS_DENSE = 32
_IN_CACHE = 1024
_SHARE_IN_CACHE = 1 / 8
_SHARE_IN_MEMORY = 1 / 4


def cheaper_storage(M: Any) -> Any:
    """Return symmetric couplings, dense or sparse, as the ndarray or `csr_array` in which a flip is cheaper."""
    d = M.shape[0]
    sparse = bool(scipy.sparse.issparse(M))
    entries = M.nnz if sparse else int(np.count_nonzero(M))
    share = _SHARE_IN_CACHE if d <= _IN_CACHE else _SHARE_IN_MEMORY
    if d <= _ALWAYS_DENSE or entries > share * d * d:
        return M.toarray() if sparse else M
    return scipy.sparse.csr_array(M)
