"""
A Bayesian network with evidence
================================

Diseases cause symptoms, symptoms are seen, and the question is which diseases are there.
``bouncy.FactorGraph`` takes the tables of the network, and ``clamp`` the evidence.
"""

import matplotlib.pyplot as plt
import numpy as np

import bouncy

# %%
# Twelve diseases, each with a small probability, and ten symptoms with three possible causes each. A
# symptom is absent if every disease that is present fails to cause it, and nothing else does either
# (a noisy-or): P(absent) = 0.97 x product of (1 - strength). Tables have one axis for each parent,
# and the symptom on the last; index 0 is "no" (-1), 1 is "yes" (+1).
rng = np.random.default_rng(5)
diseases = [f"D{k}" for k in range(12)]
symptoms = [f"S{k}" for k in range(10)]
network = {name: ((), [1 - p, p]) for name, p in zip(diseases, rng.uniform(0.02, 0.15, 12), strict=True)}
for name in symptoms:
    parents = tuple(rng.choice(diseases, 3, replace=False).tolist())
    strength = rng.uniform(0.4, 0.9, 3)
    absent = np.full((2, 2, 2), 0.97)
    for axis in range(3):
        np.moveaxis(absent, axis, 0)[1] *= 1 - strength[axis]
    network[name] = (parents, np.stack([absent, 1 - absent], axis=-1))
target = bouncy.FactorGraph.from_bayesian_network(network)
print(target)

# %%
# The patient has S1, S4 and S6, and neither S0 nor S7. ``clamp`` returns the distribution of all that
# is left.
evidence = {"S1": +1, "S4": +1, "S6": +1, "S0": -1, "S7": -1}
posterior = target.clamp(evidence)
run = bouncy.sample(posterior, "gibbs", draws=20_000, seed=0)
print(run.summary())

# %%
# Probabilities are (1 + mean)/2. With 17 variables left ``bouncy.exact`` can enumerate, and also
# knows the probability of the evidence: tables of a network are normalised, so that it is the Z of
# the clamped one.
exact = bouncy.exact(posterior)
print(f"log probability of the evidence: {exact.log_z:.3f}")
index = [run.index(name) for name in diseases]
score = (run.mean - exact.mean)[index] / run.mean_se[index]
print("errors / standard error:", score.round(1))

# %%
# A ladder finds the probability of the evidence also where enumeration is out of reach.
tempered = bouncy.sample(posterior, "tempered", draws=2000, seed=0)
print(f"from a ladder: {tempered.log_z:.3f} ± {tempered.log_z_se:.3f}")

# %%
# What the evidence changes.
prior = [network[name][1][1] for name in diseases]
probability, error = (1 + run.mean[index]) / 2, run.mean_se[index] / 2
x = np.arange(12)
plt.figure(figsize=(9, 4), layout="constrained")
plt.bar(x - 0.2, prior, 0.4, color="lightgrey", label="before the evidence")
plt.bar(x + 0.2, probability, 0.4, yerr=2 * error, capsize=3, label="given the evidence")
plt.plot(x + 0.2, (1 + exact.mean[index]) / 2, "kx", label="exact")
plt.xticks(x, diseases)
plt.ylabel("probability of the disease")
plt.legend()
plt.show()
