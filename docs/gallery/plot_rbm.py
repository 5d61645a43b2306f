"""
A restricted Boltzmann machine of digits
========================================

scikit-learn trains a restricted Boltzmann machine on small pictures of digits. What has it learned?
``bouncy.RBM`` samples it, and log Z turns its energies into likelihoods.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import BernoulliRBM

import bouncy

# %%
# Pictures of 8 x 8 pixels, black or white, and 16 hidden units.
pictures = (load_digits().data > 7).astype(float)
trained = BernoulliRBM(n_components=16, learning_rate=0.01, n_iter=60, random_state=0).fit(pictures)

# %%
# The machine in bouncy's terms. ``marginal()`` is the distribution of the pixels, the hidden units
# summed out exactly.
machine = bouncy.RBM(trained.components_.T, b=trained.intercept_visible_, c=trained.intercept_hidden_)
pixels = machine.marginal()
print(machine)

# %%
# Digits are modes that are far apart, so a ladder is needed. It is made for the joint distribution of
# pixels and hidden units, whose rungs move side by side in one loop; log Z is the same.
run = bouncy.sample(machine, "tempered", chains=4, draws=4000, seed=0)
print(f"log Z = {run.log_z:.2f} ± {run.log_z_se:.2f}")

# %%
# With 16 hidden units log Z is known exactly: the pixels can be summed out for each of the 2^16
# states of the others.
hidden = (1 + bouncy.states(16)) / 2
W, b, c = trained.components_.T, trained.intercept_visible_, trained.intercept_hidden_
exact = np.logaddexp.reduce(np.logaddexp(0.0, b + hidden @ W.T).sum(axis=1) + hidden @ c)
print(f"exact:  {exact:.2f}")

# %%
# Likelihood in nats per picture: that of the machine, and that of independent pixels with the right
# means.
likelihood = pixels.log_prob(2 * pictures - 1) - run.log_z
mean = pictures.mean(axis=0).clip(1e-3, 1 - 1e-3)
independent = (pictures * np.log(mean) + (1 - pictures) * np.log1p(-mean)).sum(axis=1)
print(f"machine: {likelihood.mean():.1f}, independent pixels: {independent.mean():.1f}")

# %%
# What it dreams of, beside data. A draw of a pixel is black or white; drawn here is its probability
# given the hidden units of the draw.
units = (1 + run.draws[..., machine.n_visible :]) / 2
dreams = 1 / (1 + np.exp(-(b + units[:, ::400].reshape(-1, 16) @ W.T)))
figure, axes = plt.subplots(4, 20, figsize=(11, 2.9), layout="constrained")
for ax, image in zip(axes.ravel(), [*pictures[:40], *dreams], strict=True):
    ax.imshow(image.reshape(8, 8), cmap="Greys", vmin=0, vmax=1)
    ax.set(xticks=[], yticks=[])
axes[0, 0].set_title("data", loc="left")
axes[2, 0].set_title("the machine", loc="left")
plt.show()

# %%
# A machine at the maximum of the likelihood has the means of the data. This one comes near: its
# training, with chains of a few steps, does not see all of the distribution. Error bars of the
# machine are smaller than the dots, so that the differences are those of the training.
plt.figure(figsize=(4.5, 4.2), layout="constrained")
found, error = (1 + run.mean[:64]) / 2, run.mean_se[:64] / 2
plt.errorbar(pictures.mean(axis=0), found, 2 * error, fmt="o", markersize=4)
plt.axline((0, 0), slope=1, color="k", linewidth=1)
plt.xlabel("share of pictures in which a pixel is black")
plt.ylabel("its probability in the machine")
plt.show()
