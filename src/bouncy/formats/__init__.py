"""Conversions from and to the models of other tools: Ising, QUBO, dimod, networkx, files."""
