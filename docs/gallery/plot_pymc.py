"""
Binary variables in a PyMC model
================================

In a PyMC model ``bouncy.pymc.BouncyBinary`` moves the binary variables and NUTS the others. Here
they are the indicators and the coefficients of a regression with a spike-and-slab prior. Needs PyMC
(``pip install 'bouncy[pymc]'``).
"""

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm

import bouncy
from bouncy.pymc import BouncyBinary

# %%
# Ten correlated predictors, of which four have an effect, and 50 observations.
slopes = np.array([1.0, 0.0, 0.0, -0.7, 0.0, 0.4, 0.0, 0.0, 0.0, 0.3])
rng = np.random.default_rng(1)
X = rng.normal(size=(50, 10)) + 0.5 * rng.normal(size=(50, 1))
y = X @ slopes + rng.normal(size=50)

# %%
# The model as PyMC has it.
with pm.Model() as model:
    included = pm.Bernoulli("included", 0.3, shape=10)
    slope = pm.Normal("slope", 0.0, 0.5, shape=10)
    pm.Normal("y", pm.math.dot(X, included * slope), 1.0, observed=y)

# %%
# The step method takes the variables that it moves. PyTensor's numba mode needs no C compiler, and is
# faster on a model of this size. Slopes are free while they are out of the model and held tight by
# the data while they are in, for which NUTS needs short steps. Indicators that never change have no R-hat,
# of which PyMC would warn: they are compared with exact probabilities below.
fast = {"mode": "NUMBA"}
with model:
    flips = BouncyBinary([included], sampler="bps-gaussian", sweeps=2, compile_kwargs=fast)
    nuts = pm.NUTS([slope], target_accept=0.95, compile_kwargs=fast)
    settings = {"chains": 2, "cores": 1, "random_seed": 1, "progressbar": False}
    trace = pm.sample(2000, tune=500, step=[flips, nuts], compute_convergence_checks=False, **settings)
draws = trace.posterior["included"].values  # (chain, draw, 10)

# %%
# The slopes can be integrated out, and ``bouncy.VariableSelection`` with the same prior does so:
# ``bouncy.exact`` adds up all 1024 models. Standard errors are those of 20 batches of draws.
target = bouncy.VariableSelection(
    X, y, prior="independent", slab_scale=0.5, noise_scale=1.0, inclusion=0.3, intercept=False
)
exact = (1 + bouncy.exact(target).mean) / 2
probability = draws.mean(axis=(0, 1))
error = draws.reshape(20, -1, 10).mean(axis=1).std(axis=0, ddof=1) / np.sqrt(20)
print("slope  P(included)           exact")
for row in zip(slopes, probability, error, exact, strict=True):
    print("{:5.1f}  {:11.3f} ± {:.3f} {:7.3f}".format(*row))
moved = error > 0
print("errors / standard error:", ((probability - exact)[moved] / error[moved]).round(1))

# %%
# Probabilities against the exact ones. Where the slopes can be integrated out, do that: a flip then
# takes well under a microsecond, and an indicator does not have to wait for its slope to come near
# zero.
plt.figure(figsize=(5, 4.5), layout="constrained")
plt.errorbar(exact, probability, 2 * error, fmt="o")
plt.axline((0, 0), slope=1, color="k", linewidth=1)
plt.xlabel("exact probability of being in the model")
plt.ylabel("PyMC with BouncyBinary")
plt.show()
