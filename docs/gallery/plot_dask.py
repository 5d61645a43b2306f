"""
A cluster run with Dask, and a checkpoint
=========================================

The same call runs on threads, on processes of this machine or on a cluster, and gives the same
bytes. A checkpoint lets the run survive the end of all of them.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

import bouncy

# %%
# An Ising lattice, whose energy is known exactly (Kaufman). 16 chains, four to a clock, are four
# pieces of work. The warm-up is given, because by default it is longer where more draws are asked for
# at the start.
side, coupling = 16, 0.4
target = bouncy.MRF.ising((side, side), coupling=coupling)
options = {"chains": 16, "lanes": 4, "warmup": 400, "seed": 0}


# %%
# A cluster of two processes. On a real one ``SLURMCluster`` of dask-jobqueue, or another of Dask's
# clusters, takes the place of ``LocalCluster``; the rest stays.
def start_cluster():
    return LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)


# %%
# The run is cut in two: the first cluster stops after 500 draws of each chain, and another one goes
# on from the checkpoint. The processes of a ``LocalCluster`` import this file, hence the last line.
def main(folder):
    with start_cluster() as cluster, Client(cluster) as client:
        executor = client.get_executor(pure=False)
        first = bouncy.sample(target, draws=500, checkpoint=folder, executor=executor, **options)
    with start_cluster() as cluster, Client(cluster) as client:
        run = bouncy.resume(folder, target, total_draws=1500, executor=client.get_executor(pure=False))
    print(first, run, sep="\n")

    # Without a cluster, and in one piece, the seed gives the same bytes.
    threads = bouncy.sample(target, draws=1500, **options)
    print("same bytes:", run.draws.tobytes() == threads.draws.tobytes(), run.mean.tobytes() == threads.mean.tobytes())
    return first, run


def draw(first, run):
    # log p is coupling x sum of s_i s_j over bonds. Error bars are from the spread of the 16 chains, which are
    # uncorrelated although four of them share a clock.
    exact = bouncy.testing.kaufman_torus(side, side, coupling).bond_mean
    bond = run.log_prob / (coupling * 2 * side**2)
    steps = np.arange(1, bond.shape[1] + 1)
    running = np.cumsum(bond, axis=1) / steps
    mean, error = running.mean(axis=0), running.std(axis=0, ddof=1) / np.sqrt(run.chains)
    print(f"E[s_i s_j] = {mean[-1]:.5f} ± {error[-1]:.5f}, exact {exact:.5f}")

    plt.figure(figsize=(8, 4), layout="constrained")
    plt.fill_between(steps, mean - 2 * error, mean + 2 * error, alpha=0.3)
    plt.plot(steps, mean, label="16 chains")
    plt.axhline(exact, color="k", linewidth=1, label="exact")
    plt.axvline(first.draws_per_chain, color="tab:orange", linestyle="--", label="the first cluster ends")
    plt.xlabel("draws of each chain")
    plt.ylabel("E[s_i s_j] of neighbours")
    plt.ylim(exact - 0.012, exact + 0.012)
    plt.legend()
    plt.show()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        draw(*main(Path(place) / "checkpoint"))
