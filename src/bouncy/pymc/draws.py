"""`to_model`: the draws of a density of a PyMC model, in the model's own variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from pymc.pytensorf import compile as compile_function
from pymc.pytensorf import join_nonshared_inputs

from bouncy.pymc.variables import labels_of
from bouncy.results.paths import PathRun

if TYPE_CHECKING:
    import xarray


def to_model(run: PathRun, model: pm.Model | None = None) -> xarray.DataTree:
    """Return the draws of a run on `bouncy.Density.from_pymc(model)` as draws of the variables of the model.

    Parameters
    ----------
    run : PathRun
        A run that kept its draws. One that was read from a file will do.
    model : pymc.Model, optional
        The model that the density was built from, or one built in the same way; by default, the model of the context.

    Returns
    -------
    xarray.DataTree
        As `run.to_arviz()`, with the group `posterior` of the model: its free variables in their own, constrained space
        and its deterministic ones, of shape (chain, draw, ...), with its dimensions and coordinates. Older versions of
        ArviZ, which do not know the class, take `tree["posterior"].to_dataset()`.

    Examples
    --------
    .. code-block:: python

        run = bouncy.sample(bouncy.Density.from_pymc(model), draws=2000, seed=1)
        sigma = bouncy.pymc.to_model(run, model).posterior["sigma"]  # positive, although run.draws has log sigma
    """
    import xarray

    model = pm.modelcontext(model)
    point = model.initial_point(0)
    labels = labels_of(model, point)
    if tuple(run.target.labels) != labels:
        raise ValueError(f"the run is of {_shown(run.target.labels)}, but the model has {_shown(labels)}")
    if not run.draws.shape[1]:
        raise ValueError("the run kept no draws to translate: sample with keep='draws'")
    variables = [*model.free_RVs, *model.deterministics]
    arrays = _computed(model, point, variables, np.asarray(run.draws))
    tree = run.to_arviz()
    posterior = tree["posterior"]
    contents = {
        variable.name: (("chain", "draw", *_dims(model, variable.name, array.ndim - 2)), array)
        for variable, array in zip(variables, arrays, strict=True)
    }
    used = {dim for dims, _ in contents.values() for dim in dims}
    coords: dict[str, Any] = {
        name: list(values) for name, values in model.coords.items() if name in used and values is not None
    }
    coords |= {name: posterior[name].values for name in ("chain", "draw")}
    tree["posterior"] = xarray.DataTree(xarray.Dataset(contents, coords, posterior.attrs))
    return tree


def _computed(model: pm.Model, point: Any, variables: list[Any], draws: NDArray[np.float64]) -> list[NDArray[Any]]:
    """Return variables of the model at draws, (chain, draw, d), each as (chain, draw, ...)."""
    graphs = model.replace_rvs_by_values(variables)
    graphs, y = join_nonshared_inputs(point, graphs, model.value_vars)
    function = compile_function([y], graphs, on_unused_input="ignore", trust_input=True)
    rows = [function(row) for row in np.array(draws, np.float64).reshape(-1, draws.shape[-1])]
    return [np.array(column).reshape(*draws.shape[:2], *np.shape(column[0])) for column in zip(*rows, strict=True)]


def _dims(model: pm.Model, name: str, ndim: int) -> list[str]:
    """Return the dimensions of a variable, named as PyMC does where the model has no names."""
    given = model.named_vars_to_dims.get(name) or (None,) * ndim
    return [str(dim) if dim is not None else f"{name}_dim_{k}" for k, dim in enumerate(given)]


def _shown(labels: tuple[Any, ...]) -> str:
    return ", ".join(map(str, labels[:4])) + (f", ... ({len(labels)} variables)" if len(labels) > 4 else "")
