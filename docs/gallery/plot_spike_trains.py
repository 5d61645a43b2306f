"""
A Boltzmann machine of spike trains
===================================

Which neurons drive each other? A pairwise model with the same firing rates and the same
coincidences as a recording is the least structured one that explains them. It is fitted by matching
moments, for which the moments of the model are needed at every step: that is what the sampler is
for.
"""

import matplotlib.pyplot as plt
import numpy as np

import bouncy

# %%
# The recording is simulated from a model that we know: 40 neurons, time bins in which each of them
# fires (+1) or is silent (-1), sparse couplings, and low rates.
d, bins = 40, 20_000
rng = np.random.default_rng(0)
J_true = np.triu(0.35 * rng.standard_normal((d, d)) * (rng.random((d, d)) < 0.12), 1)
J_true += J_true.T
h_true = rng.normal(-0.9, 0.3, d)
truth = bouncy.MRF(-J_true, -h_true)  # log p = h.s + sum of J_ij s_i s_j over pairs
recording = bouncy.sample(truth, chains=4, draws=bins // 4, thin=10, seed=1).draws.reshape(bins, d).astype(float)

# %%
# The statistics of the model are all s_i and all s_i s_j, and log p(s) = theta.statistics - log Z.
# Their covariance in the data tells how the moments change with the parameters (it is the Fisher
# information of one time bin).
i, j = np.triu_indices(d, 1)
statistics = np.hstack([recording, recording[:, i] * recording[:, j]])
moments = statistics.mean(axis=0)
inverse = np.linalg.inv(np.cov(statistics.T))


def machine(theta):
    J = np.zeros((d, d))
    J[i, j] = J[j, i] = theta[d:]
    return bouncy.MRF(-J, -theta[:d])


# %%
# The gradient of the log-likelihood is moments of the data minus moments of the model, and Newton's
# step is the inverse covariance times that. We take half of it, from independent neurons on, with
# ever longer runs of 64 chains that share a clock. Each run begins where the chains of the last one
# ended.
theta = np.concatenate([np.arctanh(moments[:d]), np.zeros(i.size)])
start = np.where(rng.random((64, d)) < (1 + moments[:d]) / 2, 1, -1)
gaps = []
for step in range(20):
    run = bouncy.sample(
        machine(theta), chains=64, draws=20 * (step + 1), warmup=20, pairs="all", initial=start, seed=step
    )
    start = run.draws[:, -1]
    gap = moments - np.concatenate([run.mean, run.pair_mean[i, j]])
    gaps.append((abs(gap[:d]).max(), abs(gap[d:]).max()))
    theta += 0.5 * inverse @ gap
print(f"largest difference of a mean and of a pair: {gaps[-1][0]:.4f}, {gaps[-1][1]:.4f}")

# %%
# How good can a fit be? The recording has noise of its own, which leaves each parameter uncertain by
# the square root of the inverse Fisher information.
limit = np.sqrt(np.diag(inverse) / bins)[d:]
error = theta[d:] - J_true[i, j]
print(f"rms error of the couplings: {np.sqrt(np.mean(error**2)):.4f}, best possible: {np.sqrt(np.mean(limit**2)):.4f}")
print(f"within two standard errors: {np.mean(abs(error) < 2 * limit):.1%}, expected: 95.4 %")

# %%
# The couplings, the convergence, and a test that the fit did not use: how many neurons fire at once.
final = bouncy.sample(machine(theta), chains=64, draws=1000, seed=99)
count = np.arange(16)
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
left.errorbar(J_true[i, j], theta[d:], 2 * limit, fmt="o", markersize=3, alpha=0.5, elinewidth=0.7)
left.axline((0, 0), slope=1, color="k", linewidth=1)
left.set(xlabel="coupling that was planted", ylabel="coupling that was found", title="780 couplings")
middle.semilogy(gaps, label=["means", "pairs"])
middle.set(xlabel="step", ylabel="largest difference, data − model", title="Matching moments", ylim=(1e-3, 1))
middle.legend()
for states, style, name in ((recording, "ko", "recording"), (final.draws.reshape(-1, d), "C1-", "model")):
    fired = (states > 0).sum(axis=1)
    right.semilogy(count, [np.mean(fired == k) for k in count], style, markersize=4, label=name)
right.set(xlabel="neurons that fire in the same bin", ylabel="probability", title="Not fitted, but right")
right.legend()
plt.show()
