"""Which of 300 variables explain a response? Posterior inclusion probabilities from 150 observations.

Run it by `python examples/variable_selection.py`.
"""

from __future__ import annotations

import numpy as np

import bouncy

EFFECTS = {"x017": 1.0, "x101": -0.8, "x103": 0.7, "x250": 0.5}


def make_data(n: int = 150, p: int = 300, seed: int = 7) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return variables with correlated neighbours, a response that four of them explain, and their names."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    for j in range(1, p):
        X[:, j] = 0.6 * X[:, j - 1] + 0.8 * X[:, j]
    names = [f"x{j:03}" for j in range(p)]
    y = sum(effect * X[:, names.index(name)] for name, effect in EFFECTS.items())
    return X, y + rng.standard_normal(n), names


def main() -> None:
    """Sample models, print the probabilities of variables and the coefficients of the best model."""
    X, y, names = make_data()
    target = bouncy.VariableSelection(X, y, inclusion="beta-binomial", expected_size=5, labels=names)
    run = bouncy.sample(target, "bps-gaussian", draws=5000, thin=10, seed=1)
    print(f"{target!r}: planted {', '.join(f'{name} ({effect:+.1f})' for name, effect in EFFECTS.items())}\n")
    print(run.inclusion_table())

    best = run.draws.reshape(-1, target.d)[run.log_prob.argmax()]
    coefficients = target.coefficients(best)
    print("\nThe most probable model that was visited, with the posterior means of its coefficients:")
    print(", ".join(f"{names[j]} {coefficients[j]:+.2f}" for j in np.flatnonzero(best > 0)))
    sizes = (run.draws > 0).sum(axis=2)
    print(f"Size of models: {sizes.mean():.1f} on average, at most {sizes.max()}")
    report = run.diagnostics
    print(f"{1e9 * report['sampling_seconds'] / report['hits']:.0f} ns for an attempted flip")


if __name__ == "__main__":
    main()
