"""`bouncy warmup`: compile now what would be compiled on first use."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import click

from bouncy.cli._parameters import did_you_mean

_EPILOG = """\b
Examples:
  bouncy warmup
  bouncy warmup --sampler bps-gaussian --target mrf-sparse
  NUMBA_CACHE_DIR=/opt/cache bouncy warmup --no-progress
"""


@click.command(short_help="Compile everything and keep it on disk.", epilog=_EPILOG)
@click.option("--sampler", "samplers", multiple=True, help="Only this sampler; may be repeated.")
@click.option("--target", "targets", multiple=True, help="Only this kind of target; may be repeated.")
@click.option("--pairs", "pairs", multiple=True, help="Only this recorder of pairs; may be repeated.")
@click.option("--progress/--no-progress", default=None, help="Show a progress bar; by default on a terminal.")
def command(samplers: tuple[str, ...], targets: tuple[str, ...], pairs: tuple[str, ...], progress: bool | None) -> None:
    """Compile the samplers for every kind of target and of recorded pairs, and keep the code on disk.

    A process that samples afterwards starts at once, as long as it sees the same cache: run this when an image is
    built, or once for all nodes that share a disk. NUMBA_CACHE_DIR says where the cache is.
    """
    import sys

    from tqdm import tqdm

    builders = _builders()
    chosen_samplers = _choose("--sampler", samplers, _sampler_names())
    chosen_targets = _choose("--target", targets, list(builders))
    chosen_pairs = _choose("--pairs", pairs, ["all", "edges", "none"])
    built = {name: builders[name]() for name in chosen_targets}
    samplers_of = {name: _samplers_of(name, target) for name, target in built.items()}
    work = [
        (target, sampler, recorder)
        for target, sampler, recorder in itertools.product(chosen_targets, chosen_samplers, chosen_pairs)
        if sampler in samplers_of[target] and (recorder != "edges" or _has_edges(built[target]))
    ]
    hidden = not (sys.stderr.isatty() if progress is None else progress)
    with tqdm(work, unit="combination", disable=hidden, leave=False) as bar:
        for target, sampler, recorder in bar:
            bar.set_description(f"{sampler}, {target}, pairs={recorder}")
            _use(built[target], sampler, recorder)
    what = "1 combination is" if len(work) == 1 else f"{len(work)} combinations are"
    click.echo(f"{what} ready in {_cache_directory()}")


def _choose(option: str, asked: tuple[str, ...], known: list[str]) -> list[str]:
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise click.UsageError(
            f"{option} is {unknown[0]!r}; expected one of: {', '.join(known)}.{did_you_mean(unknown[0], known)}"
        )
    return [name for name in known if name in asked] if asked else known


def _builders() -> dict[str, Callable[[], Any]]:
    """Return a builder of each kind of target that loops are compiled for."""
    from bouncy.piecewise.targets import specialised
    from bouncy.targets import examples

    return {**examples(), **specialised()}


def _sampler_names() -> list[str]:
    """Return the names of all samplers but "auto", which uses loops of the others."""
    from bouncy.samplers import OF_SPINS, names
    from bouncy.samplers.contract import PathSampler

    known = dict.fromkeys([*names(OF_SPINS), *names(PathSampler)])
    return [name for name in known if name != "auto"]


def _samplers_of(name: str, target: Any) -> list[str]:
    """Return the names of the samplers that have loops for a kind of target."""
    from bouncy.samplers import names, registry
    from bouncy.samplers._clusters import ClusterSampler
    from bouncy.samplers.contract import PathSampler, SpinSampler

    found = [entry.name for entry in registry((SpinSampler, PathSampler)) if entry.sampler.accepts(target)]
    if name == "mrf-sparse":
        found += names(ClusterSampler)  # whose loops are the same for dense couplings
    return found


def _has_edges(target: Any) -> bool:
    return hasattr(target, "edges") and target.edges() is not None


def _use(target: Any, sampler: str, pairs: str) -> None:
    """Call what a user calls, on a small scale: sample, mean, diagnostics, exact."""
    import bouncy

    for chains in (2, 8):  # of which eight share a clock, where they can
        options: Any = {"chains": chains, "draws": 20, "pairs": pairs, "seed": 0, "progress": False}
        run = bouncy.sample(target, sampler, **options)
        assert run.mean.size == target.d
        assert run.diagnostics["batches"] > 0
    if isinstance(target, bouncy.Target):
        bouncy.exact(target)


def _cache_directory() -> str:
    """Return the directory of compiled code; raise if there is none."""
    from bouncy._compile import cache_directory

    directory = cache_directory()
    if directory is None:
        raise click.ClickException(
            "nothing was kept: no cache directory is private and writable; set NUMBA_CACHE_DIR to one that you own"
        )
    return str(directory)
