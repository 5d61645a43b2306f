"""Functions of a user: compiled once and called by address, or called as plain Python where numba cannot."""
