"""What it costs to have many chains on an executor: traffic, work of the process that leads, merging, throughput."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial

from problems import dense, new_worker
from report import Figure, Task
from timing import Median, interleaved, median

import bouncy

TITLE = "Chains on executors: traffic, leading, merging, throughput"
NOTE = (
    "An Ising ring of d spins, means kept. `order` and `answer` are sent for each slice, `model` once to each process. "
    "`leading` is the CPU time of the leading process per slice, without what the executor itself takes; `merging` is "
    "CPU time for means, standard errors and diagnostics of all chains. Throughput is elapsed time of eight chains of "
    "dense d = 100 on two threads over that on two processes."
)
HEADER = "figure | chains | d or executor"

_CHAINS, _SIZES = (10, 100, 1000, 4000), (100, 1000)

# Answers at once, so that what is left of the CPU time is that of the leading process.
_SCRIPT = """
import json, pickle, resource, sys, time
from concurrent.futures import Executor, Future
import bouncy

class AtOnce(Executor):
    def __init__(self):
        self.worked, self.slices, self.sent, self.returned, self.models = 0.0, 0, 0, 0, []

    def submit(self, function, task, model):
        before = time.thread_time()
        answer = function(task, model)
        self.worked += time.thread_time() - before
        self.slices += len(pickle.loads(task)[1])
        self.sent += len(task)
        self.returned += len(answer)
        self.models.append(len(model))
        future = Future()
        future.set_result(answer)
        return future

def sample(chains, executor):
    return bouncy.sample(target, chains=chains, draws=100, warmup=100, seed=0, keep="means", executor=executor)

target = bouncy.MRF.ising((int(sys.argv[2]),), coupling=0.3)
sample(2, AtOnce()).diagnostics  # everything is compiled
executor, before = AtOnce(), time.process_time()
run = sample(int(sys.argv[1]), executor)
leading, before = time.process_time() - before - executor.worked, time.process_time()
run.mean, run.mean_se, run.diagnostics
print(json.dumps({
    "merging": time.process_time() - before,
    "leading": 1e3 * leading / executor.slices,
    "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    "order": executor.sent / executor.slices / 1e3,
    "answer": executor.returned / executor.slices / 1e3,
    "model": max(executor.models) / 1e3,
}))
"""
_UNITS = {"order": "kB", "answer": "kB", "model": "kB", "leading": "ms", "merging": "s", "memory": "MB"}


def tasks(quick: bool) -> list[Task]:
    chains = _CHAINS[:3] if quick else _CHAINS
    many = [Task(f"{n} chains, d = {d}", partial(_many, n, d, quick)) for d in _SIZES for n in chains]
    return [*many, Task("throughput", partial(_throughput, quick))]


def _many(chains: int, d: int, quick: bool) -> list[Figure]:
    found = [_measured(chains, d) for _ in range(3 if chains <= 100 and not quick else 1)]
    return [
        Figure(f"{name} | {chains} | {d}", median([one[name] for one in found]), unit=unit, details={"d": d})
        for name, unit in _UNITS.items()
    ]


def _measured(chains: int, d: int) -> dict[str, float]:
    command = [sys.executable, "-c", _SCRIPT, str(chains), str(d)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    numbers: dict[str, float] = json.loads(answer)
    return numbers


def _throughput(quick: bool) -> list[Figure]:
    """Compare eight chains on two threads with the same on two processes."""
    from distributed import Client, LocalCluster

    seconds, rounds = (0.5, 5) if quick else (2.0, 5)
    spawn = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(2, mp_context=spawn) as pool,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        executors: dict[str, Executor | None] = {
            "threads": None,
            "ProcessPoolExecutor": pool,
            "Dask": client.get_executor(pure=False),
        }
        run = partial(_elapsed, dense(100), _sweeps_in(seconds))
        elapsed = interleaved({name: partial(run, executor) for name, executor in executors.items()}, rounds)
    names = list(executors)[1:]
    return [_gain(name, median(elapsed["threads"] / elapsed[name])) for name in names]


def _gain(name: str, ratio: Median) -> Figure:
    return Figure(f"throughput | 8 | {name}", ratio, details={"executor": name})


def _sweeps_in(seconds: float) -> int:
    """Return how many sweeps take about so many CPU seconds."""
    worker = new_worker(dense(100), "bps-gaussian")
    worker.advance(1000)
    return int(10_000 * seconds / worker.advance(10_000).cpu_seconds)


def _elapsed(target: bouncy.MRF, sweeps: int, executor: Executor | None) -> float:
    threads = 2 if executor is None else None
    before = time.perf_counter()
    bouncy.sample(
        target, chains=8, draws=sweeps, warmup=0, keep="means", pairs="none", seed=0, progress=False,
        threads=threads, executor=executor,
    )  # fmt: skip
    return time.perf_counter() - before
