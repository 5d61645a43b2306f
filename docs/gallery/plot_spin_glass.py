"""
A spin glass: a ladder of temperatures, and log Z
=================================================

Couplings of random sign leave a glass with many modes that single flips do not connect. A ladder of
temperatures connects them, and brings log Z with it.
"""

import matplotlib.pyplot as plt
import numpy as np

import bouncy

# %%
# A 6 x 6 lattice with couplings +1.5 and -1.5 at random, and small random fields. It is small enough
# for an exact answer that does not need 2^36 terms: summing one row of spins after the other takes
# 2^6 numbers at a time (a transfer matrix).
side, strength = 6, 1.5
rng = np.random.default_rng(3)
across = strength * rng.choice([-1.0, 1.0], (side, side - 1))  # between columns, of each row
down = strength * rng.choice([-1.0, 1.0], (side - 1, side))  # between rows
field = 0.1 * rng.standard_normal((side, side))

site = np.arange(side**2).reshape(side, side)
J = np.zeros((side**2, side**2))
J[site[:, :-1], site[:, 1:]] = across
J[site[:-1], site[1:]] = down
glass = bouncy.MRF(-(J + J.T), -field.ravel())  # log p(s) = -s.r - s'Ms/2: couplings J are -M

# %%
# The transfer matrix: ``total[k]`` is the logarithm of the sum over all rows so far, given that the
# last one is row k.
rows = bouncy.states(side).astype(float)  # (64, 6)


def exact_log_z(b):
    """Return log of the sum over all states of p^b."""
    inside = b * (np.einsum("kc,c,kc->k", rows[:, :-1], across[0], rows[:, 1:]) + rows @ field[0])
    total = inside
    for r in range(1, side):
        inside = b * (np.einsum("kc,c,kc->k", rows[:, :-1], across[r], rows[:, 1:]) + rows @ field[r])
        total = np.logaddexp.reduce(total[:, None] + b * (rows * down[r - 1]) @ rows.T, axis=0) + inside
    return np.logaddexp.reduce(total)


# %%
# A tempered chain is a whole ladder. Its rungs, and the sweeps between swaps, are found by a pilot
# before the run.
run = bouncy.sample(glass, bouncy.Tempered(), chains=4, draws=4000, seed=0)
low, high = run.log_z_bounds
print(run.ladder)
print(f"\nlog Z: {run.log_z:.3f} ± {run.log_z_se:.3f}, exact {exact_log_z(1.0):.3f}")
print(f"forward and reverse estimates: {low:.3f} and {high:.3f}")

# %%
# Single chains are stuck, each in a mode of its own, and say so. The overlap of two states is the
# mean of s_i s'_i: 1 where they are equal, -1 where they are opposite.
alone = bouncy.sample(glass, chains=4, draws=4000, seed=0)
print("R-hat of the worst spin, single chains:", round(alone.diagnostics["rhat"]["worst_site"], 2))
print("R-hat of the worst spin, tempered:     ", round(run.diagnostics["rhat"]["worst_site"], 3))

figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
for ax, found, name in ((axes[0, 0], alone, "Single chains"), (axes[0, 1], run, "Tempered chains")):
    bouncy.plots.plot_overlap(found, ax=ax).set_title(name)
bouncy.plots.plot_ladder(run, ax=axes[1, 0]).set_title("Refused swaps, and their sum")
bouncy.plots.plot_flow(run, ax=axes[1, 1]).set_title("States on their way up")
plt.show()

# %%
# ``run.curve`` weighs the draws of all rungs to get log Z, energy and heat capacity at every
# temperature in between. The derivatives of the exact log Z are -energy and the variance of log p.
b = np.linspace(0.05, 1.0, 20)
curve = run.curve(b)
step = 1e-3
slope = [(exact_log_z(x + step) - exact_log_z(x - step)) / (2 * step) for x in b]

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(b, -np.array(slope), "k", label="exact")
left.errorbar(b, -curve.mean, 2 * curve.mean_se, fmt="o", markersize=4, label="run.curve")
left.set(xlabel="inverse temperature b", ylabel="energy, −E[log p]", title="Energy")
left.legend()
right.axhline(0.0, color="k")
right.errorbar(b, curve.log_z - [exact_log_z(x) for x in b], 2 * curve.log_z_se, fmt="o", markersize=4)
right.set(xlabel="inverse temperature b", ylabel="log Z − exact", title="log Z")
plt.show()
