"""The value variables of a PyMC model, which live in unconstrained space, as one vector y with labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from pymc.logprob.transforms import CircularTransform

Array = NDArray[np.float64]
Point = dict[str, NDArray[Any]]


def require_continuous(model: pm.Model) -> None:
    """Raise unless the model is one of continuous variables with a density on all of R^d, or a part of it."""
    if not model.free_RVs:
        raise ValueError("the model has no free variables to sample")
    discrete = [rv.name for rv in model.free_RVs if not rv.dtype.startswith("float")]
    if discrete:
        raise ValueError(
            f"Density.from_pymc needs a model whose free variables are all continuous, got discrete ones: "
            f"{', '.join(discrete)}. Sum over them in the model, as pymc.Mixture does, or let "
            "bouncy.pymc.BouncyBinary move binary variables beside NUTS"
        )
    for rv in model.free_RVs:
        if isinstance(model.rvs_to_transforms[rv], CircularTransform):
            raise ValueError(
                f"PyMC unrolls the angle {rv.name} to the whole line, where its density cannot be normalised: build it "
                "with default_transform=None"
            )
        if rv.dtype != "float64":
            raise ValueError(
                f"{rv.name} is of type {rv.dtype}, too coarse for event times: build the model with "
                "pytensor.config.floatX = 'float64'"
            )


def labels_of(model: pm.Model, point: Point) -> tuple[str, ...]:
    """Return the names of all entries of y."""
    return tuple(label for value in model.value_vars for label in entries(value.name, point))


def entries(name: str, point: Point) -> list[str]:
    """Return the names of the entries of a value variable: `mu`, or `beta[0]`, `beta[1]`, or `Z[0, 0]`, ..."""
    return [f"{name}[{', '.join(map(str, index))}]" if index else name for index in np.ndindex(point[name].shape)]


def raveled(model: pm.Model, point: Point) -> Array:
    """Return a point as y, (d,)."""
    return np.concatenate([np.ravel(point[value.name]).astype(np.float64) for value in model.value_vars])
