"""Runs are saved whole, and come back bit by bit."""

import dataclasses
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import bouncy
from bouncy.results import as_run
from bouncy.results.describe import described_sampler
from bouncy.samplers import OF_SPINS, registry
from bouncy.storage.header import _sampler_of
from bouncy.storage.run_file import pack
from storage.checkpoints import go
from storage.comparing import different
from storage.saved_runs import TARGETS, run_of, told

xarray = pytest.importorskip("xarray")
pytest.importorskip("h5netcdf")
pytest.importorskip("zarr")
SUFFIXES = ["npz", "nc", "zarr"]


# The trees of NetCDF and zarr take ten times as long to write, and are left to the long tests but for two below.
@pytest.fixture(params=["npz", *(pytest.param(suffix, marks=pytest.mark.slow) for suffix in ("nc", "zarr"))])
def path(request, tmp_path):
    """Return a path of each format."""
    return tmp_path / f"run.{request.param}"


# Kinds of runs that differ from another one by little are left to the long tests.
ALIKE = ("lattice", "frozen", "truncated")
every_kind = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] if kind in ALIKE else []) for kind in TARGETS]
)


@every_kind
def test_a_run_comes_back_bit_by_bit(kind, path):
    """Catches anything that is lost, rounded or exchanged between saving and loading."""
    run = run_of(kind)
    run.save(path)
    again = bouncy.Run.load(path)
    assert type(again) is type(run)
    assert told(again) == told(run)
    assert told(bouncy.Run.load(path, target=run.target)) == told(run)


@pytest.mark.parametrize(("kind", "name"), [("spins", "run.nc"), ("scheme", "run.zarr")])
def test_a_tree_comes_back_bit_by_bit(kind, name, tmp_path):
    """Catches what the test above would catch, for the trees of runs in a file and in a directory."""
    run = run_of(kind)
    run.save(tmp_path / name)
    again = bouncy.Run.load(tmp_path / name, target=run.target)
    assert told(again) == told(run)


def test_edges_of_a_model_without_couplings_come_back(tmp_path):
    """Catches sums of no pairs at all, of which no array tells the number of batches."""
    target = bouncy.MRF(scipy.sparse.csr_array((3, 3)), [0.1, 0.2, 0.3])
    run = bouncy.sample(target, chains=2, draws=20, pairs="edges", seed=0)
    run.save(tmp_path / "run.npz")
    assert bouncy.Run.load(tmp_path / "run.npz").pair_mean.nnz == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["spins", "scheme"])
def test_a_loaded_run_can_be_saved_again(kind, path, tmp_path):
    """Catches a second generation that has lost what the first one knew, such as when and with what it was made."""
    run_of(kind).save(path)
    again = bouncy.Run.load(path)
    second = tmp_path / f"second{path.suffix}"
    again.save(second)
    assert told(bouncy.Run.load(second)) == told(again)
    assert bouncy.Run.load(second).to_arviz().identical(again.to_arviz())
    if path.suffix == ".npz":
        return
    first = xarray.open_datatree(path, engine="h5netcdf" if path.suffix == ".nc" else "zarr")
    with first:
        assert again.to_arviz().attrs == first.attrs


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_a_file_is_what_arviz_reads(suffix, tmp_path):
    """Catches a file that only we can read, or one that warns whoever opens it."""
    run, path = run_of("spins"), tmp_path / f"run.{suffix}"
    run.save(path)
    with xarray.open_datatree(path) as tree:
        assert set(tree.children) == {"posterior", "sample_stats", "bouncy"}
        np.testing.assert_array_equal(tree["posterior"]["s"], run.draws)
        np.testing.assert_array_equal(tree["sample_stats"]["lp"], run.log_prob)
        assert tree["posterior"]["site"].values.tolist() == ["a", "('b', 1)", "7"]
        assert tree["posterior"].attrs["sampler"] == "bps-gaussian"


def test_a_target_that_is_not_there_is_known_by_name(path):
    """Catches a stand-in that lacks what plots and tables need, or an error that does not say what to do."""
    run = run_of("lattice")
    run.save(path)
    target = bouncy.Run.load(path).target
    assert (target.d, target.shape, target.labels) == (12, (3, 4), tuple(range(12)))
    assert repr(target) == repr(run.target)
    assert len(target.fingerprint) == 32
    with pytest.raises(AttributeError, match=r"Run\.load\(path, target=target\)"):
        target.log_prob(np.ones(12))


def test_another_model_is_refused(path):
    """Catches results that are given a model which they are not of."""
    run_of("spins").save(path)
    with pytest.raises(ValueError, match="the run is of another model"):
        bouncy.Run.load(path, target=bouncy.MRF.random(3, seed=1))
    with pytest.raises(TypeError, match="must be a bouncy target"):
        bouncy.Run.load(path, target="MRF")
    again = TARGETS["spins"]()
    assert bouncy.Run.load(path, target=again).target is again


@every_kind
def test_a_loaded_run_goes_on_with_its_target(kind, path):
    """Catches a state that is not saved whole, and a run that goes on although its target is not known."""
    run = run_of(kind)
    run.save(path)
    again = bouncy.Run.load(path, TARGETS[kind]())
    assert different(again.extend(draws=9), run.extend(draws=9)) == []
    assert told(again) == told(run)
    with pytest.raises(RuntimeError, match=r"pass it, as in bouncy\.Run\.load\(path, target=target\)"):
        bouncy.Run.load(path).extend(draws=5)


def test_a_run_with_a_checkpoint_is_saved_with_its_rows(path, tmp_path):
    """Catches a file that refers to rows in a folder which may be gone, and goes on writing to that folder."""
    run = go(tmp_path / "c")
    run.save(path)
    before = {file.name: file.read_bytes() for file in (tmp_path / "c").iterdir()}
    again = bouncy.Run.load(path, run.target)
    assert different(again, run) == []
    longer = again.extend(draws=5)
    assert before == {file.name: file.read_bytes() for file in (tmp_path / "c").iterdir()}
    assert different(longer, run.extend(draws=5)) == []


@pytest.mark.slow
def test_plots_of_a_loaded_run(path):
    """Catches a plot that needs more of a run than was saved."""
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    from matplotlib import pyplot

    run_of("slab").save(path)
    run = bouncy.Run.load(path)
    bouncy.plots.plot_density(run, 0)
    bouncy.plots.plot_inclusion(run)
    pyplot.close("all")
    lattice = bouncy.Run.load(_saved("lattice", path))
    bouncy.plots.plot_lattice(lattice.target, np.ones(12))
    pyplot.close("all")


def _saved(kind, path):
    run_of(kind).save(path, overwrite=True)
    return path


def test_nothing_is_overwritten_unasked(path):
    """Catches a run that is lost to a second one of the same name."""
    run_of("spins").save(path)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        run_of("frozen").save(path)
    assert bouncy.Run.load(path).target.d == 3
    run_of("frozen").save(path, overwrite=True)
    assert bouncy.Run.load(path).target.d == 2
    assert os.listdir(path.parent) == [path.name]


def test_other_things_are_not_overwritten_at_all(tmp_path):
    """Catches a directory of something else that is removed because it has our suffix."""
    folder = tmp_path / "precious.zarr"
    folder.mkdir()
    (folder / "thesis.tex").write_text("all of it")
    with pytest.raises(FileExistsError, match="something else"):
        run_of("spins").save(folder, overwrite=True)
    assert (folder / "thesis.tex").read_text() == "all of it"
    (tmp_path / "folder.nc").mkdir()
    with pytest.raises(FileExistsError, match="not a regular file"):
        run_of("spins").save(tmp_path / "folder.nc", overwrite=True)


def test_a_failure_while_writing_leaves_what_was_there(path, monkeypatch):
    """Catches a half-written file under the name of a whole one, and rubbish beside it."""
    run_of("spins").save(path)

    def fail(*arguments, **options):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        run_of("frozen").save(path, overwrite=True)
    monkeypatch.undo()
    assert told(bouncy.Run.load(path)) == told(run_of("spins"))
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("name", ["run", "run.h5", "run.npy", "run.nc.gz"])
def test_a_suffix_must_be_known(name, tmp_path):
    """Catches a format that is guessed."""
    with pytest.raises(ValueError, match=r"expected \.npz, \.nc \(NetCDF\) or \.zarr"):
        run_of("spins").save(tmp_path / name)
    with pytest.raises(ValueError, match=r"expected \.npz, \.nc \(NetCDF\) or \.zarr"):
        bouncy.Run.load(tmp_path / name)


def test_paths_that_are_wrong(path):
    """Catches an obscure error for a missing file, a missing folder, or what is no path."""
    with pytest.raises(FileNotFoundError, match="there is no"):
        bouncy.Run.load(path)
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        run_of("spins").save(path.parent / "nowhere" / path.name)
    with pytest.raises(TypeError, match="path must be a path"):
        run_of("spins").save(3)
    with pytest.raises(TypeError, match="overwrite must be True or False"):
        run_of("spins").save(path, overwrite="yes")


def test_a_run_of_another_kind_is_refused(path):
    """Catches a run on continuous variables that is taken for one on spins."""
    run_of("truncated").save(path)
    with pytest.raises(TypeError, match=r"holds a PathRun, not a SpinRun; use bouncy\.Run\.load"):
        bouncy.SpinRun.load(path)


@pytest.mark.parametrize("missing", ["xarray", "h5netcdf", "h5py"])
def test_what_is_missing_is_named(missing, tmp_path, monkeypatch):
    """Catches a bare ModuleNotFoundError."""
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=r"pip install 'bouncy\[storage\]'"):
        run_of("spins").save(tmp_path / "run.nc")


def test_npz_needs_nothing_else(tmp_path, monkeypatch):
    """Catches an import of what is not installed where only NumPy's own format is used."""
    for name in ("zarr", "h5py", "h5netcdf", "xarray"):
        monkeypatch.setitem(sys.modules, name, None)
    run_of("spins").save(tmp_path / "run.npz")
    assert told(bouncy.Run.load(tmp_path / "run.npz")) == told(run_of("spins"))


@pytest.mark.parametrize("kind", ["spins", "paths"])
def test_samplers_come_back(kind):
    """Catches a sampler that has a name but cannot be built from what is saved of it."""
    for entry in registry(bouncy.PathSampler if kind == "paths" else OF_SPINS):
        sampler = entry.sampler
        described = json.loads(json.dumps(described_sampler(sampler)))
        assert _sampler_of(kind, described, None) == sampler


def test_flips_of_a_path_come_back(path):
    """Catches flips that are given to another chain, or the start of a path that is lost."""
    target = bouncy.MRF.random(4, seed=0)
    run = bouncy.sample(target, chains=3, draws=40, keep="path", seed=1)
    run.save(path)
    again = bouncy.Run.load(path)
    assert [part.tobytes() for part in again.flips] == [part.tobytes() for part in run.flips]
    assert len({part.size for part in run.flips}) > 1
    assert again.start.tobytes() == run.start.tobytes()
    assert again.duration == run.duration
    assert again.draws.tobytes() == run.draws.tobytes()
    assert again.replay([0.3, 2.0]).tobytes() == run.replay([0.3, 2.0]).tobytes()


def test_how_a_run_ended_comes_back(path):
    """Catches a run that was interrupted and looks complete when it is read."""
    run = as_run(dataclasses.replace(run_of("spins")._data, stopped_by="interrupt"))
    run.save(path)
    again = bouncy.Run.load(path)
    assert (again.stopped_by, again.completed, again.trace_spacing) == ("interrupt", False, 1)
    assert again.summary().to_dict()["stopped_by"] == "interrupt"
    assert again.to_arviz().attrs["completed"] == 0


def test_headers_stay_small():
    """Catches a header that grows with the number of chains or sites: an attribute of HDF5 holds 64 kB."""
    sizes = []
    for chains, d in ((1, 2), (60, 40)):
        labels = [f"a long label of site number {i}" for i in range(d)]
        target = bouncy.MRF(np.zeros((d, d)), 0.1, labels=labels)
        header, _ = pack(bouncy.sample(target, chains=chains, draws=1, warmup=0, pairs="none", seed=0))
        sizes.append(len(json.dumps(header)))
    assert abs(sizes[1] - sizes[0]) < 400  # the indices of chains


def test_labels_that_cannot_be_told_apart(path):
    """Catches two sites that come back under one name."""

    class Site:
        def __str__(self):
            return "site"

    target = bouncy.MRF.random(2, seed=0, labels=[Site(), Site()])
    run = bouncy.sample(target, chains=1, draws=5, seed=0)
    with pytest.raises(ValueError, match="have the same text"):
        run.save(path)


# Full disks

SAVING = """
    import os, resource, signal, sys
    import bouncy
    from storage.saved_runs import run_of, told

    path, size = sys.argv[1], int(sys.argv[2])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    run = run_of("spins")
    before = told(run)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        run.save(path)
    except OSError as error:
        print("OSError")
    assert os.listdir(os.path.dirname(path)) == [], os.listdir(os.path.dirname(path))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert told(run) == before
    run.save(path)
    assert told(bouncy.Run.load(path)) == before
    print("well")
"""


def _in_a_process(script, *arguments):
    places = os.pathsep.join([str(Path(bouncy.__file__).parents[1]), str(Path(__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": places}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
@pytest.mark.parametrize(
    ("suffix", "size"),
    [
        pytest.param(suffix, size, marks=[] if (suffix, size) == ("nc", 0) else [pytest.mark.slow])
        for suffix in SUFFIXES
        for size in (0, 1000)
    ],
)
def test_a_full_disk_is_an_error_and_leaves_nothing_behind(suffix, size, tmp_path):
    """Catches a process that ends because its disk is full, as the HDF5 library would have it, or a part of a file."""
    assert _in_a_process(SAVING, tmp_path / f"run.{suffix}", size) == ["OSError", "well"]


@pytest.mark.slow  # a limit on the size of files does for every day what this does for real
def test_a_full_file_system_is_an_error_and_leaves_nothing_behind(path, tmp_path):
    """Catches what a limit on files does not show: no room for new files and names, and partial writes."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16k,nr_inodes=8", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        run = run_of("spins")
        before = told(run)
        with pytest.raises(OSError, match="No space left"):
            run.save(place / path.name)
        assert os.listdir(place) == []
        assert told(run) == before
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=False)
