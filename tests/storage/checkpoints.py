"""Models, and short runs on them that write checkpoints."""

from __future__ import annotations

import numpy as np

import bouncy
from bouncy.storage.archive import read_header

MODEL = bouncy.MRF.random(6, sigma_M=0.3, sigma_r=0.2, seed=3)
GAUSSIAN = bouncy.Gaussian([0.0, 1.0, 0.0], cov=np.eye(3) + 0.3)
QUICK = {"chains": 3, "warmup": 40, "draws": 40, "seed": 11}
STATES = ("state-0.npz", "state-1.npz")


def sparse():
    return bouncy.MRF.ising((4, 4), coupling=0.3)


def go(folder, target=MODEL, **options):
    return bouncy.sample(target, checkpoint=folder, progress=False, **{**QUICK, **options})


def plain(target=MODEL, **options):
    return bouncy.sample(target, progress=False, **{**QUICK, **options})


def resume(folder, target=MODEL, **options):
    return bouncy.resume(folder, target, progress=False, **options)


def newest(folder):
    """Return the file of the last generation."""
    return max(folder.glob("state-?.npz"), key=lambda file: read_header(file)["generation"])


def contents(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
