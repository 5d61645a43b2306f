"""Checkpoints and run files with wrong headers and arrays whose digests are right, as an attacker could write them.

    python tests/storage/forged.py FOLDER SEED CASES

resumes forged checkpoints in forked children, and ends with status 0 if each child resumed or raised a clear error
within `SECONDS`, without a fatal signal. With 0 CASES, all odd numbers are put into all arrays of a state.
"""

from __future__ import annotations

import copy
import math
import os
import shutil
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import bouncy
from bouncy.storage.archive import read_archive, write_archive

REFUSED = (bouncy.CheckpointError, bouncy.RunFileError, ValueError)
SECONDS = float(os.environ.get("SECONDS", "20"))
ODD = (None, True, -1, 0, 1, 7, 2**63, 10**30, 10**400, 0.5, 1e300, math.nan, math.inf, "x", "", [], [1], {}, {"x": 1})
STATES = ("state-0.npz", "state-1.npz")


def _scale(x, parameters, generator):
    return np.sqrt((2.0 + x @ x / 2) / generator.gamma(3 + x.size / 2))


def _field(x, parameters, generator):
    return generator.normal(x.sum(), 1.0)


def scaled():
    return bouncy.Within(
        lambda scale: bouncy.Gaussian([0, 0], cov=scale**2 * np.eye(2)), {"scale": _scale}, {"scale": 1}
    )


def magnet():
    return bouncy.Within(lambda h: bouncy.MRF(np.zeros((3, 3)), -h * np.ones(3)), {"h": _field}, {"h": 0.0})


def slab():
    X = np.array([[1.0, 0.2], [0.3, -1.0], [0.5, 0.5]])
    return bouncy.SpikeSlab(X, X[:, 0], inclusion=0.5, slab_scale=2.0, noise_scale=1.0)


def polynomial():
    return bouncy.Polynomial({(0, 1, 2): 0.4, (1, 2, 3): -0.3, (0, 3): 0.25, (1,): -0.3, (2,): 0.2})


def factors():
    not_all = [[[1.0, 2.0], [1.5, 1.0]], [[1.0, 0.5], [1.0, 0.7]]]
    return bouncy.FactorGraph(
        [(("a", "b", "c"), not_all), (("c", "d"), [[1.0, 0.3], [2.0, 1.0]]), (("b",), [1.0, 2.0])]
    )


def selection():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(12, 5))
    return bouncy.VariableSelection(X, X[:, 0] + rng.normal(size=12))


def _log_prob(s, data):
    return data[0] * s[0] * s[1] + data[1] * s[2]


def custom():
    return bouncy.Custom(3, log_prob=_log_prob, data=np.array([0.3, -0.2]))


def _well(y, data):
    return -(((y[0] / data) ** 2 - 1.0) ** 2) - 0.5 * (y[1] - y[0]) ** 2 + (0.5 if y[0] + y[1] > 0.3 else 0.0)


def _well_gradient(y, out, data):
    out[0] = -4.0 * y[0] / data**2 * ((y[0] / data) ** 2 - 1.0) + y[1] - y[0]
    out[1] = y[0] - y[1]


def _well_bound(y, v, horizon, data):
    """Bound all terms by themselves; it need not be tight."""
    a, b = abs(y[0]) + abs(v[0]) * horizon, abs(y[1]) + abs(v[1]) * horizon
    return abs(v[0]) * 4.0 * a / data**2 * ((a / data) ** 2 + 1.0) + (abs(v[0]) + abs(v[1])) * (a + b)


def density(**options):
    edges, walls = {1: [0.0, 0.7]}, [([1.0, 1.0], 0.3)]
    return bouncy.Density(2, _well, _well_gradient, edges=edges, walls=walls, data=2.0, **options)


# Target, sampler and options of runs of every kind of worker, clock, and record.
KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "draws": (lambda: bouncy.MRF.random(6, seed=3), "bps-gaussian", {}),
    "means": (lambda: bouncy.MRF.ising((3, 4), 0.3), "bps-exponential", {"keep": "means", "pairs": "edges"}),
    "path": (lambda: bouncy.MRF.random(6, seed=3), "gibbs-random", {"keep": "path", "pairs": "none"}),
    "hmc": (polynomial, "hmc", {"pairs": "none"}),
    "hmc-exponential": (polynomial, "hmc-exponential", {"keep": "path"}),
    "metropolis": (polynomial, "metropolis", {"keep": "means", "thin": 3}),
    "factors": (factors, "bps-gaussian", {"keep": "means"}),
    "clamped": (lambda: factors().clamp({"b": 1}), "gibbs", {}),
    "selection": (selection, "bps-gaussian", {}),
    "custom": (custom, "gibbs", {}),
    "continuous": (slab, "bps", {}),
    "truncated": (lambda: bouncy.TruncatedGaussian([0.0, 0.5], cov=[[1, 0.3], [0.3, 1]], lower=0.0), "hmc", {}),
    "continuous gibbs": (slab, "gibbs", {}),
    "continuous means": (lambda: bouncy.Gaussian([0, 1], cov=np.eye(2)), "bps", {"keep": "means", "pairs": "none"}),
    "density": (density, "bps", {}),
    "density metropolis": (density, "metropolis", {}),
    "thinned density": (lambda: density(bound=_well_bound), "bps", {"keep": "means"}),
    "within": (scaled, "bps", {}),
    "spins within": (magnet, "gibbs", {"keep": "means"}),
    "flock": (lambda: bouncy.MRF.random(6, seed=3), "bps-gaussian", {"chains": 10, "lanes": 4}),
    "ladder": (lambda: bouncy.MRF.random(6, seed=3), bouncy.Tempered(ladder=[0, 0.3, 1], sweeps_per_swap=1), {}),
    "ladder of factors": (factors, bouncy.Tempered("gibbs", ladder=[0, 0.3, 1], sweeps_per_swap=2), {"keep": "path"}),
}


def build(kind: str, folder: Path) -> Any:
    """Write a checkpoint of a short run, and return its target."""
    target, sampler, options = KINDS[kind]
    model = target()
    bouncy.sample(
        model,
        sampler,
        checkpoint=folder,
        progress=False,
        **{"chains": 2, "draws": 20, "warmup": 20, "seed": 1, **options},
    )
    return model


def rewrite(file: Path, change: Any) -> None:
    """Change the header and the arrays of an archive."""
    header, arrays = read_archive(file)
    change(header, arrays)
    with open(file, "wb") as out:
        write_archive(out, header, arrays)


def forge_header(header: dict[str, Any], rng: np.random.Generator) -> str:
    """Change one entry of a header, at any depth, and return what was done."""
    places = list(_places(header))
    inside, key = places[int(rng.integers(len(places)))]
    before, value = inside[key], copy.deepcopy(ODD[int(rng.integers(len(ODD)))])
    if rng.random() < 0.15:
        del inside[key]
        return f"deleted {key!r} of {before!r:.60}"
    if type(before) is int and rng.random() < 0.4:
        value = before + int(rng.integers(-3, 4))
    inside[key] = value
    return f"{key!r} from {before!r:.60} to {value!r:.60}"


def _places(item: Any):
    """Yield containers and keys of all entries, at any depth."""
    keys = list(item) if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
    for key in keys:
        yield item, key
        yield from _places(item[key])


def forge_array(arrays: dict[str, Any], rng: np.random.Generator, names: list[str] | None = None) -> str:
    """Change one array, and return what was done."""
    names = list(arrays) if names is None else names
    name = names[int(rng.integers(len(names)))]
    array = arrays[name]
    way = int(rng.integers(8)) if names is None or rng.random() < 0.3 else 7
    if way == 0:
        del arrays[name]
    elif way == 1:
        arrays[f"{name}x"] = array
    elif way == 2:
        with np.errstate(invalid="ignore"):  # numbers that are too large for the other type
            arrays[name] = array.astype(rng.choice(["<i1", "<i4", "<i8", "<u4", "<f8", "|b1"]))
    elif way == 3:
        arrays[name] = array.reshape(-1)
    elif way == 4 and array.ndim:
        arrays[name] = np.concatenate([array, array], axis=int(rng.integers(array.ndim)))
    elif way == 5 and array.ndim:
        arrays[name] = array[..., : array.shape[-1] // 2].copy()
    elif way == 6:
        arrays[name] = np.zeros((2, 0))
    elif array.size:
        return f"{name}: {_overwrite(array, rng)}"
    return f"{name}: way {way}"


def odd_numbers(array: Any) -> list[Any]:
    """Return numbers of the type of an array that it can hardly hold."""
    if array.dtype.kind == "f":
        return [math.nan, math.inf, -math.inf, 1e300, -1e300, 1e-300, -1.0, 0.0, 1e9, 4.0]
    if array.dtype.kind == "b":
        return [False, True]
    info = np.iinfo(array.dtype)
    size = array.shape[-1] if array.ndim else 3
    return [*{info.min, info.max, max(info.min, -1), 0, 1, min(info.max, 10**6), min(info.max, size)}]


def _overwrite(array: Any, rng: np.random.Generator) -> str:
    """Put odd numbers into one, some, or all entries."""
    odd = odd_numbers(array)
    value = odd[int(rng.integers(len(odd)))]
    flat = array.reshape(-1)
    share = rng.choice([0.0, 0.3, 1.0])
    chosen = rng.random(flat.size) < share
    chosen[int(rng.integers(flat.size))] = True
    flat[chosen] = value
    return f"{int(chosen.sum())} of {flat.size} entries are {value!r}"


# Forked children


def _child(folder: Path, target: Any, draws: int) -> str:
    """Resume in a child, and return what went wrong."""
    number = os.fork()
    if not number:
        code = 3
        try:
            warnings.simplefilter("ignore")
            bouncy.resume(folder, target, total_draws=draws, threads=1, progress=False)
            code = 0
        except (*REFUSED, bouncy.TargetError):  # the last where a cache holds numbers that cannot go together
            code = 1
        except BaseException:
            traceback.print_exc(limit=-1)
        os._exit(code)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found, status = os.waitpid(number, os.WNOHANG)
        if found:
            code = os.waitstatus_to_exitcode(status)
            return "" if code in (0, 1) else f"ended with status {code}"
        time.sleep(0.001)
    os.kill(number, signal.SIGKILL)
    os.waitpid(number, 0)
    return f"did not end within {SECONDS} s"


def _resume_forged(source: Path, target: Any, change: Any) -> str:
    """Return what went wrong when a forged copy of a checkpoint was resumed."""
    place = source.with_name("forged")
    shutil.copytree(source, place)
    newest = max(STATES, key=lambda name: read_archive(place / name)[0]["generation"])
    rewrite(place / newest, change)
    for name in set(STATES) - {newest}:
        (place / name).unlink()
    problem = _child(place, target, 40)
    shutil.rmtree(place)
    return problem


def random_cases(folder: Path, targets: dict[str, Any], seed: int, cases: int):
    """Forge one or two random arrays of a state at a time."""
    rng = np.random.default_rng(seed)
    for case in range(cases):
        kind, done = list(targets)[case % len(targets)], list[str]()

        def change(header: Any, arrays: Any, done: list[str] = done) -> None:
            for _ in range(int(rng.integers(1, 3))):
                done.append(forge_array(arrays, rng, [name for name in arrays if name.startswith("state.")]))

        problem = _resume_forged(folder / kind, targets[kind], change)
        yield f"{kind}: {done}", problem


def all_cases(folder: Path, targets: dict[str, Any]):
    """Put each odd number into each array of a state: into its first or its last entry, in turn, and into all of them.

    Integers, which may be indices, come each in turn where they are few.
    """
    for kind, target in targets.items():
        _, arrays = read_archive(folder / kind / STATES[0])
        for name in [name for name in arrays if name.startswith("state.") and arrays[name].size]:
            for k, value in enumerate(odd_numbers(arrays[name])):
                few = arrays[name].size < 30 and arrays[name].dtype.kind == "i"
                entries = range(arrays[name][0].size) if few else (-(k % 2),)
                for entry in (*entries, slice(None)):

                    def change(header: Any, arrays: Any, name=name, value=value, entry=entry) -> None:
                        arrays[name][0].reshape(-1)[entry] = value if arrays[name].ndim > 1 else arrays[name][0]

                    yield f"{kind}: {name}[{entry}] = {value}", _resume_forged(folder / kind, target, change)


def main() -> None:
    folder, seed, cases = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    targets = {kind: build(kind, folder / kind) for kind in KINDS if not sys.argv[4:] or kind in sys.argv[4:]}
    for kind, target in targets.items():  # everything is compiled before the first fork
        bouncy.resume(folder / kind, target, total_draws=21, threads=1, progress=False)
    tried, problems = 0, 0
    for what, problem in random_cases(folder, targets, seed, cases) if cases else all_cases(folder, targets):
        tried += 1
        if problem:
            problems += 1
            print(f"{what} {problem}", file=sys.stderr, flush=True)
    print(f"{tried} cases, {problems} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
