"""
A QUBO from dimod
=================

The largest independent set of a graph, as a quadratic function of 0/1 variables that dimod builds.
bouncy samples it at a temperature: the best state seen is ``run.best``, and unlike an annealer it
tells how probable each variable is, with error bars.
"""

import dimod
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import bouncy

# %%
# Choose as many nodes as possible of which no two are neighbours: E(x) = -sum x_i + 2 sum over edges
# x_i x_j. The labels of the nodes stay the labels of everything below.
graph = nx.random_geometric_graph(45, 0.22, seed=2)
bqm = dimod.BinaryQuadraticModel("BINARY")
for node in graph:
    bqm.add_linear(f"n{node}", -1.0)
for one, other in graph.edges:
    bqm.add_quadratic(f"n{one}", f"n{other}", 2.0)
print(bqm.num_variables, "variables,", bqm.num_interactions, "interactions")

# %%
# p(s) is proportional to exp(-E/T). At a low temperature single chains are stuck, so we climb a
# ladder. ``run.best`` is the most probable state at any rung; ``to_bqm`` and
# ``bouncy.dimod.BouncySampler`` lead back to dimod.
target = bouncy.MRF.from_bqm(bqm, temperature=0.2)
run = bouncy.sample(target, "tempered", draws=2000, seed=0)
best = dict(zip(target.labels, (1 + run.best.state) // 2, strict=True))
print("nodes chosen:", sum(best.values()), " energy:", bqm.energy(best))

# %%
# How many sets are that large? A state of energy E has probability exp(-E/T)/Z, so that (number of
# states with the lowest energy) = Z exp(E/T) x (share of draws with that energy). log Z comes with
# the ladder.
share, share_se = run.expect(lambda s: np.isclose(target.log_prob(s), run.best.log_prob))
log_number = run.log_z - run.best.log_prob + np.log(share)
error = np.hypot(run.log_z_se, share_se / share)
print(f"number of largest sets: {np.exp(log_number):.0f} ± {np.exp(log_number) * error:.0f}")

# %%
# networkx can list all sets to which no node can be added, as cliques of the complement. Here that
# takes a second; it grows exponentially with the graph.
sets = list(nx.find_cliques(nx.complement(graph)))
size = max(map(len, sets))
largest = [found for found in sets if len(found) == size]
print(f"exact: {len(largest)} sets of {size} nodes")

# %%
# The probability of each node to be in a largest set, from draws of that energy and from the list,
# and the best state.
chosen = run.draws[np.isclose(run.log_prob, run.best.log_prob)] > 0
exact = np.array([np.mean([node in found for found in largest]) for node in graph])
place = nx.get_node_attributes(graph, "pos")
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
colours = ["tab:orange" if best[f"n{node}"] else "lightgrey" for node in graph]
nx.draw(graph, place, ax=left, node_color=colours, node_size=90, edge_color="grey", width=0.7)
left.set_title(f"run.best: {size} nodes, no two of them neighbours")
right.plot(exact, chosen.mean(axis=0), "o")
right.axline((0, 0), slope=1, color="k", linewidth=1)
right.set(xlabel="share of all largest sets with a node, exact", ylabel="share of draws", title="45 nodes")
plt.show()
