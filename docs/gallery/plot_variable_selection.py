"""
Which variables belong in a regression?
=======================================

``bouncy.VariableSelection`` is the posterior over all subsets of variables, with coefficients and
noise integrated out. The data are those of 442 diabetes patients (Efron, Hastie, Johnstone &
Tibshirani 2004), which scikit-learn ships.
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import bouncy

# %%
# Ten variables have 1024 subsets, which ``bouncy.exact`` sums up. Columns of a data frame give the
# variables their names.
data = load_diabetes(as_frame=True, scaled=False)
X = (data.data - data.data.mean()) / data.data.std()
X.columns = ["age", "sex", "bmi", "bp", "tc", "ldl", "hdl", "tch", "ltg", "glu"]
y = data.target
ten = bouncy.VariableSelection(X, y)
run = bouncy.sample(ten, draws=5000, seed=0)
exact = (1 + bouncy.exact(ten).mean) / 2
print(run.inclusion_table())
print("largest error of a probability:", abs((1 + run.mean) / 2 - exact).max().round(5))

# %%
# All products and squares of the ten make 64 terms, and 2^64 subsets. A prior that expects five terms
# keeps chance findings out. tc, ldl, hdl and tch are nearly collinear and stand in for each other, so
# that we exchange terms as well as adding and removing them.
terms = X.copy()
for one, other in itertools.combinations_with_replacement(X.columns, 2):
    if not one == other == "sex":  # which has two values: its square is the same again
        terms[f"{one}²" if one == other else f"{one}·{other}"] = X[one] * X[other]
terms = (terms - terms.mean()) / terms.std()
target = bouncy.VariableSelection(terms, y, inclusion="beta-binomial", expected_size=5)
run64 = bouncy.sample(target, "metropolis-mixed", draws=10_000, seed=0)
print(run64.diagnostics["warnings"] or "no warnings")

# %%
# The most probable subset that was seen, with posterior means of its coefficients in units of y:
best = run64.best.state
coefficients = target.coefficients(best)
for k in np.flatnonzero(best > 0):
    print(f"{target.labels[k]:8} {coefficients[k]:+6.1f}")
size, size_se = run64.expect(lambda s: (s > 0).sum(axis=1))
print(f"expected number of terms: {size:.2f} ± {size_se:.2f}")

# %%
# Left: estimates of the ten and exact values. Right: the terms that are most probably in the model of
# 64.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
place = np.arange(ten.d)
left.barh(place, exact, color="lightgrey", label="exact")
left.errorbar((1 + run.mean) / 2, place, xerr=run.mean_se, fmt="o", markersize=5, label="estimate")
left.set(yticks=place, yticklabels=ten.labels, title="Ten variables")
left.set(xlabel="probability that the coefficient is not zero")
left.invert_yaxis()
left.legend()
top = [row.variable for row in run64.inclusion_table()][:15]
bouncy.plots.plot_inclusion(run64, variables=top, ax=right).set_title("64 terms")
plt.show()
