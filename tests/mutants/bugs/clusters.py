"""Bugs of cluster samplers."""

from __future__ import annotations

from .names import Bug, Edit


def clusters(test: str, case: str = "") -> str:
    """Return the node id of a test of cluster samplers."""
    return f"tests/samplers/test_clusters.py::{test}" + (f"[{case}]" if case else "")


CLUSTER_SUMS = "recorders/clusters.py"
CLUSTERS = "workers/cluster_kernel.py"
GAUGE = "targets/gauge.py"

BUGS: tuple[Bug, ...] = (
    Bug(
        "C1",
        "bonds are drawn with probability 1 - exp(-J)",
        (Edit(GAUGE, "p = -np.expm1(-2.0 * J)", "p = -np.expm1(-1.0 * J)"),),
        (clusters("test_law_is_kept", "gauge in fields-swendsen-wang"),),
    ),
    Bug(
        "C2a",
        "fields hold the spins that are against them",
        (Edit(GAUGE, "pull=np.sign(field)", "pull=-np.sign(field)"),),
        (clusters("test_law_is_kept", "gauge in fields-swendsen-wang"),),
    ),
    Bug(
        "C2b",
        "a field holds the spin in the gauge",
        (Edit(CLUSTERS, "== view.gauge[i] * view.pull[i]:", "== view.pull[i]:"),),
        (clusters("test_law_is_kept", "gauge in fields-wolff"),),
    ),
    Bug(
        "C3a",
        "a cluster is turned over with probability 3/4",
        (
            Edit(
                CLUSTERS,
                "np.int8(1 - 2 * np.int64(coins & _ONE))",
                "np.int8(1 - 2 * np.int64((coins | coins >> _ONE) & _ONE))",
            ),
        ),
        (clusters("test_states_are_those_of_the_literal_twin", "gauge in fields-swendsen-wang"),),
    ),
    Bug(
        "C3b",
        "the cluster that fields hold is turned over as well",
        (Edit(CLUSTERS, "            turn = np.int8(1)\n", "            turn = np.int8(-1)\n"),),
        (clusters("test_law_is_kept", "gauge in fields-swendsen-wang"),),
    ),
    Bug(
        "C3c",
        "a held cluster of Wolff turns",
        (Edit(CLUSTERS, "turned = sigma if held else -sigma", "turned = -sigma"),),
        (clusters("test_law_is_kept", "gauge in fields-wolff"),),
    ),
    Bug(
        "C4",
        "sites of a cluster keep the spins of before it for the next one",
        (Edit(CLUSTERS, "                growth.free[i] = turned\n", "                growth.free[i] = sigma\n"),),
        (clusters("test_states_are_those_of_the_literal_twin", "gauge in fields-wolff"),),
    ),
    Bug(
        "C5",
        "log p counts each pair of different couplings, but for the last few",
        (Edit(GAUGE, "range(n - n % 4, n)", "range(n, n)"),),
        (clusters("test_estimates_of_runs", "gauge in fields-swendsen-wang"),),
    ),
    Bug(
        "C6a",
        "means of clusters have the wrong sign",
        (Edit(CLUSTER_SUMS, "sums.mean[i] += s[i]", "sums.mean[i] -= s[i]"),),
        (clusters("test_law_is_kept", "gauge in fields-swendsen-wang"),),
    ),
    Bug(
        "C6b",
        "pairs within a cluster count as equal spins, whatever the gauge",
        (Edit(CLUSTER_SUMS, "sums.pair_mean[i, j] += s[i] * s[j]", "sums.pair_mean[i, j] += 1.0"),),
        (clusters("test_law_is_kept", "gauge in fields-swendsen-wang"),),
    ),
    Bug(
        "C6c",
        "moments are those of the magnetisation in the gauge",
        (Edit(CLUSTERS, "if not view.is_plain:", "if view.is_plain:"),),
        (clusters("test_law_is_kept", "gauge in fields-swendsen-wang"),),
    ),
    Bug(
        "C6d",
        "fourth moments without the term of single clusters",
        (Edit(CLUSTER_SUMS, " - 2.0 * fourths", ""),),
        (clusters("test_law_is_kept", "strong in fields-swendsen-wang"),),
    ),
    Bug(
        "C7",
        "every site counts as tied to a field, or none does",
        (Edit(GAUGE, "np.asarray(lit[component])", "np.full(d, not lit.all())"),),
        (clusters("test_zeros_are_no_couplings"),),
    ),
    Bug(
        "C8",
        "no site is flipped by the gauge",
        (Edit(GAUGE, "[root][component], 1, -1)", "[root][component], 1, 1)"),),
        (clusters("test_gauge_makes_all_couplings_ferromagnetic", "7"),),
    ),
    Bug(
        "C9",
        "bits that are left over are used in the next sweep, so that slices make a difference",
        (
            Edit(
                CLUSTERS,
                "at = np.uint64(growth.bits.size)\n        squares",
                "at = _NONE\n        squares",
            ),
        ),
        (clusters("test_states_are_those_of_the_literal_twin", "gauge in fields-wolff"),),
    ),
    Bug(
        "C10",
        "a block of a scheme keeps the gauge of the target before",
        (Edit(GAUGE, "* like.gauge[M.indices] < 0.0", "* like.gauge[M.indices] < np.inf"),),
        (clusters("test_workers_go_on_with_another_target", "swendsen-wang"),),
    ),
)
