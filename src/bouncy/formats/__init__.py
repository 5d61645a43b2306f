"""Models in and out of the forms other tools use: Ising, QUBO, dimod, networkx."""
