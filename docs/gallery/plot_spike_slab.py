"""
Spike and slab: coefficients that are exactly zero
==================================================

``bouncy.SpikeSlab`` samples the coefficients themselves, zeros included. Here they may also be
restricted to be positive, for which the coefficients cannot be integrated out.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import multivariate_normal

import bouncy

# %%
# Eight correlated variables and 60 observations. Four coefficients are zero.
rng = np.random.default_rng(1)
beta = np.array([0.0, 0.6, 0.0, 0.25, 0.0, 0.4, 0.0, 0.15])
X = rng.standard_normal((60, 8)) + rng.standard_normal((60, 1))
y = X @ beta + rng.standard_normal(60)
X, y = X - X.mean(axis=0), y - y.mean()
prior = {"inclusion": 0.4, "slab_scale": 0.5, "noise_scale": 1.0}
free = bouncy.SpikeSlab(X, y, intercept=False, **prior)
run = bouncy.sample(free, draws=4000, seed=0)
print(run.summary())

# %%
# The exact answer: given which coefficients are not zero, all is Gaussian, so that the 256 subsets
# can be added up.
weights, means, total = [], [], np.eye(60)
for subset in (bouncy.states(8) > 0).astype(bool):
    columns = X[:, subset]
    cov = total + 0.25 * columns @ columns.T
    odds = np.log(0.4 / 0.6) * subset.sum()
    weights.append(multivariate_normal(cov=cov).logpdf(y) + odds)
    mean = np.zeros(8)
    mean[subset] = 0.25 * columns.T @ np.linalg.solve(cov, y)
    means.append(mean)
weights = np.exp(np.array(weights) - np.max(weights))
weights /= weights.sum()
exact_inclusion, exact_mean = weights @ (bouncy.states(8) > 0), weights @ np.array(means)
likely = exact_inclusion < 0.999
score = (run.inclusion - exact_inclusion) / run.inclusion_se
print("errors of P(not zero) / standard error:", score[likely].round(1))
print("errors of E[beta] / standard error:    ", ((run.mean - exact_mean) / run.mean_se).round(1))

# %%
# One coefficient was left out of the first line. It was never zero in the run, and its tiny
# probability of zero is an average over what the chains saw, none of which was near the states that
# make up most of it. So far out not even the order of magnitude is to be trusted, nor the standard
# error:
k = int(exact_inclusion.argmax())
print(f"P(coefficient {k} is zero): {1 - run.inclusion[k]:.1g} ± {run.inclusion_se[k]:.1g}")
print(f"exact: {1 - exact_inclusion[k]:.1g}")

# %%
# Now the same with coefficients that are zero or positive, as amounts are. Only ``positive=True`` is
# new.
positive = bouncy.sample(bouncy.SpikeSlab(X, y, intercept=False, positive=True, **prior), draws=4000, seed=0)
print(positive.inclusion_table())

# %%
# Probabilities against the exact ones, and the posterior of one coefficient under both priors: a
# density, and a bar for zero whose height is the probability of zero, where the frame is 1.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
x = np.arange(8)
left.bar(x, exact_inclusion, color="lightgrey", label="exact")
left.errorbar(x - 0.1, run.inclusion, 2 * run.inclusion_se, fmt="o", markersize=4, label="either sign")
left.errorbar(x + 0.1, positive.inclusion, 2 * positive.inclusion_se, fmt="s", markersize=4, label="zero or positive")
left.set(xticks=x, xticklabels=[f"{b:g}" for b in beta], xlabel="coefficient that was planted")
left.set(ylabel="P(not zero)", title="Inclusion")
left.legend()
bouncy.plots.plot_density(run, 3, ax=right, label="either sign", color="C0")
bouncy.plots.plot_density(positive, 3, ax=right, label="zero or positive", color="C1")
right.set(title="Coefficient 3, planted 0.25", xlabel="coefficient")
right.legend(loc="upper right", fontsize="small")
plt.show()
