"""
Truncated Gaussians, and classification by a Gaussian process
=============================================================

Yes or no answers are signs of numbers that nobody sees. If these have a Gaussian prior (probit
regression, a Gaussian process), their posterior is a Gaussian cut off at zero in each coordinate: a
``bouncy.TruncatedGaussian``.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import quad
from scipy.stats import norm

import bouncy

# %%
# First a case with an exact answer: ten variables, all correlated by 0.5, all positive. Given a
# common part w they are independent, x_i = sqrt(0.5) (w + e_i), which leaves one integral.
d = 10
box = bouncy.TruncatedGaussian(0.0, cov=0.5 * np.eye(d) + 0.5, lower=0.0)
run = bouncy.sample(box, draws=5000, seed=0)
z = quad(lambda w: norm.pdf(w) * norm.cdf(w) ** d, -8, 8)[0]
first = quad(lambda w: norm.pdf(w) * norm.cdf(w) ** (d - 1) * np.sqrt(0.5) * (w * norm.cdf(w) + norm.pdf(w)), -8, 8)[0]
print(f"exact E[x_i] = {first / z:.5f}")
print("errors / standard error:", ((run.mean - first / z) / run.mean_se).round(1))

# %%
# Now 80 answers along a line. Behind each is a number z_i = f(t_i) + N(0, 1), where f is an unknown
# smooth function; the answer is yes if z_i > 0. The prior of f is a Gaussian process. The variables
# are all z_i, and f at 50 places.
rng = np.random.default_rng(4)
t = np.sort(rng.uniform(0.0, 10.0, 80))
truth = lambda t: 1.8 * np.sin(0.9 * t)  # noqa: E731
answer = truth(t) + rng.standard_normal(80) > 0
places = np.linspace(0.0, 10.0, 50)


def kernel(a, b):
    return 4.0 * np.exp(-0.5 * (a[:, None] - b) ** 2 / 1.2**2)


both = np.concatenate([t, places])
cov = kernel(both, both) + np.diag(np.r_[np.ones(80), np.full(50, 1e-4)])  # the last for numerical stability
posterior = bouncy.TruncatedGaussian(
    0.0,
    cov=cov,
    lower=np.r_[np.where(answer, 0.0, -np.inf), np.full(50, -np.inf)],
    upper=np.r_[np.where(answer, np.inf, 0.0), np.full(50, np.inf)],
    labels=[*(f"z{i}" for i in range(80)), *(f"f({place:.1f})" for place in places)],
)
gp = bouncy.sample(posterior, "hmc", draws=4000, seed=0)
print(gp.diagnostics["warnings"] or "no warnings")

# %%
# Given z the function is Gaussian, and its mean is a matrix times z. So there are two estimates of
# E[f] from the same run, the average of the draws of f and that of E[f | z]; they must agree.
given = kernel(places, t) @ np.linalg.solve(kernel(t, t) + np.eye(80), np.eye(80))
indirect, indirect_se = gp.expect(lambda x: x[:, :80] @ given.T - x[:, 80:])
print("largest difference / standard error:", abs(indirect / indirect_se).max().round(1))

# %%
# The function, with its posterior mean and 90 % band, and the probability of yes.
low, high = (gp.quantile(level)[0][80:] for level in (0.05, 0.95))
chance, chance_se = gp.expect(lambda x: norm.cdf(x[:, 80:]))
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.fill_between(places, low, high, alpha=0.3, label="90 % band")
left.plot(places, gp.mean[80:], label="posterior mean")
left.plot(places, truth(places), "k--", label="function that was planted")
left.set(xlabel="t", title="The function f")
left.legend()
right.plot(t, answer, "|", color="grey", markersize=12, label="answers")
right.errorbar(places, chance, 2 * chance_se, label="posterior")
right.plot(places, norm.cdf(truth(places)), "k--", label="truth")
right.set(xlabel="t", ylabel="probability of yes", title="Predictions")
right.legend()
plt.show()
