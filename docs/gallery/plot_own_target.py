"""
Targets of your own
===================

A binary distribution needs one function: what a flip costs. A continuous one needs log p and its
gradient. numba compiles both; the samplers are not compiled again.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import quad

import bouncy

# %%
# Particles on a ring of sites, no two of them neighbours, each worth mu: a hard-core lattice gas. A
# flip that is impossible costs infinity. ``data`` is handed to the functions as their last argument.


def cost(s, i, mu):
    if s[i] > 0:
        return mu  # log p(s) - log p(s without the particle)
    return np.inf if s[i - 1] > 0 or s[(i + 1) % s.size] > 0 else -mu


def log_prob(s, mu):
    total = 0.0
    for i in range(s.size):
        if s[i] > 0:
            total += mu
            if s[i - 1] > 0:
                return -np.inf
    return total


gases = {mu: bouncy.Custom(60, cost, log_prob, data=mu) for mu in np.linspace(-3.0, 3.0, 9)}
empty = -np.ones(60)
bouncy.testing.check_target(gases[0.0], initial=empty)  # do cost and log_prob agree?

# %%
# Random states are hardly ever possible, so chains start from the empty ring, too. The exact density
# is that of a transfer matrix [[1, sqrt a], [sqrt a, 0]], a = exp(mu): Z = l^60 + k^60 with its two
# eigenvalues l and k, and the number of particles is the derivative of log Z with respect to mu.


def exact_density(mu, d=60, step=1e-4):
    def log_z(mu):
        root = np.sqrt(1 + 4 * np.exp(mu))
        return np.log(((1 + root) / 2) ** d + ((1 - root) / 2) ** d)

    return (log_z(mu + step) - log_z(mu - step)) / (2 * step * d)


density, error = np.transpose([
    bouncy.sample(gas, draws=2000, initial=empty, seed=k).expect(lambda s: (s > 0).mean(axis=1))
    for k, gas in enumerate(gases.values())
])  # fmt: skip
print("errors / standard error:", ((density - [exact_density(mu) for mu in gases]) / error).round(1))

# %%
# A density with a jump: x has a smooth prior and pays a toll of 1.5 for being positive; y follows x.
# ``edges`` names the place at which log p jumps.


def log_p(x, coupling):
    return -0.25 * x[0] ** 4 - 0.5 * (x[1] - coupling * x[0]) ** 2 - (1.5 if x[0] > 0 else 0.0)


def gradient(x, out, coupling):
    out[0] = -(x[0] ** 3) + coupling * (x[1] - coupling * x[0])
    out[1] = -(x[1] - coupling * x[0])


smooth = bouncy.Density(2, log_p, gradient, edges={"x": [0.0]}, data=0.8, labels=["x", "y"])
run = bouncy.sample(smooth, draws=5000, seed=0)

# %%
# y has the mean 0.8 x given x, so that everything follows from integrals over x alone.
half = quad(lambda x: np.exp(-0.25 * x**4), 0, 6)[0]
first = quad(lambda x: x * np.exp(-0.25 * x**4), 0, 6)[0]
up = np.exp(-1.5) / (1 + np.exp(-1.5))
exact = np.array([(2 * up - 1) * first / half, 0.8 * (2 * up - 1) * first / half])
share, share_se = run.probability(lower=0.0)
print(f"P(x > 0) = {share[0]:.4f} ± {share_se[0]:.4f}, exact {up:.4f}")
print("means:", run.mean.round(4), "±", run.mean_se.round(4), " exact:", exact.round(4))

# %%
# Both results against their exact answers.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
fine = np.linspace(-3.2, 3.2, 200)
left.plot(fine, [exact_density(mu) for mu in fine], "k", label="exact")
left.errorbar(list(gases), density, 2 * error, fmt="o", label="bouncy.Custom")
left.set(xlabel="mu", ylabel="particles per site", title="Lattice gas")
left.legend()
bouncy.plots.plot_density(run, "x", ax=right, label="bouncy.Density")
x = np.linspace(-2.6, 2.6, 521)
right.plot(x, np.exp(-0.25 * x**4 - 1.5 * (x > 0)) / half / (1 + np.exp(-1.5)), "k", linewidth=1, label="exact")
right.set(title="A density that jumps at 0")
right.legend()
plt.show()
