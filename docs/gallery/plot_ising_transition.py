"""
The Ising lattice through its transition
========================================

A square lattice of spins that want to agree orders itself at one coupling. Samplers that flip
clusters of spins go through that transition without slowing down, and are compared here with exact
answers.
"""

import matplotlib.pyplot as plt
import numpy as np

import bouncy

# %%
# ``bouncy.MRF.ising`` makes the lattice, with p(s) proportional to exp(coupling x sum of s_i s_j over
# neighbours). In the middle of this range is the critical coupling of Onsager, log(1 + sqrt 2)/2 =
# 0.4407.
critical = np.log(1 + np.sqrt(2)) / 2
couplings = np.linspace(0.34, 0.54, 9)
sizes = {8: "tab:green", 16: "tab:orange", 32: "tab:blue"}
runs = {
    (side, coupling): bouncy.sample(
        bouncy.MRF.ising((side, side), coupling=coupling), "swendsen-wang", draws=800, seed=100 * side + k
    )
    for side in sizes
    for k, coupling in enumerate(couplings)
}

# %%
# Each run has the moments of the magnetisation m, the mean spin, from clusters: averaged over all
# ways in which the clusters of a sweep may point, which has a smaller error than the states
# themselves. ``run.expect`` of the same number averages over states:
run = runs[32, couplings[4]]
moments = run.magnetisation_moments
plain, plain_se = run.expect(lambda s: s.mean(axis=1) ** 2)
print(f"E[m^2], clusters: {moments.m2:.4f} ± {moments.m2_se:.4f}")
print(f"E[m^2], states:   {plain:.4f} ± {plain_se:.4f}")

# %%
# Wolff's sampler grows one cluster after the other, and large ones more often. It agrees:
wolff = bouncy.sample(run.target, "wolff", draws=800, seed=2).magnetisation_moments
print(f"E[m^2], Wolff:    {wolff.m2:.4f} ± {wolff.m2_se:.4f}")

# %%
# Two answers are exact: E[s_i s_j] of neighbours on a torus of any size (Kaufman), and the
# magnetisation of the infinite lattice, (1 - sinh(2 coupling)^-4)^(1/8) above the critical coupling
# and 0 below (Onsager, Yang). Each bond of a torus is like every other one, so that log p divided by
# (coupling x number of bonds) has the mean E[s_i s_j].
for side in sizes:
    scores = []
    for coupling in couplings:
        run = runs[side, coupling]
        bonds = 2 * side**2
        mean, error = run.expect(lambda s, t=run.target, scale=coupling * bonds: t.log_prob(s) / scale)
        scores.append((mean - bouncy.testing.kaufman_torus(side, side, coupling).bond_mean) / error)
    print(f"{side} x {side}: errors of E[s_i s_j] / standard error:", np.round(scores, 1))

# %%
# Curves of the Binder cumulant, 1 - E[m^4]/(3 E[m^2]^2), for different sizes cross at the transition.
# That is how a critical point is found when nobody knows it.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for side, colour in sizes.items():
    found = [runs[side, coupling].magnetisation_moments for coupling in couplings]
    size = np.array([np.sqrt(m.m2) for m in found])
    style = {"fmt": "o-", "color": colour, "markersize": 4, "label": f"{side} × {side}"}
    left.errorbar(couplings, size, [m.m2_se / s for m, s in zip(found, size, strict=True)], **style)
    right.errorbar(couplings, [m.binder for m in found], [2 * m.binder_se for m in found], **style)
fine = np.linspace(0.34, 0.54, 400)
onsager = np.where(fine > critical, np.maximum(1 - np.sinh(2 * fine) ** -4.0, 0.0) ** 0.125, 0.0)
left.plot(fine, onsager, "k", linewidth=1.2, label="infinite lattice, exact")
left.set(xlabel="coupling", ylabel="sqrt(E[m²])", title="Magnetisation")
right.set(xlabel="coupling", ylabel="Binder cumulant", title="The curves cross at the transition")
for ax in (left, right):
    ax.axvline(critical, color="grey", linestyle=":", linewidth=1)
    ax.set_xticks([0.35, 0.4, 0.45, 0.5])
left.legend()
plt.show()

# %%
# Two states, on either side of the transition.
figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
for ax, coupling in zip(axes, couplings[[2, 6]], strict=True):
    bouncy.plots.plot_lattice(runs[32, coupling], ax=ax)
    ax.set_title(f"coupling {coupling:.2f}")
plt.show()
