"""Checkpoints and run files that are damaged, or forged with digests that are right, are refused by a clear error."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import bouncy
from bouncy import CheckpointError, CheckpointWarning, RunFileError
from bouncy.run.driver import restored_workers
from bouncy.storage.archive import ArchiveError, read_archive, write_archive
from bouncy.storage.checkpoint import read_checkpoint
from conftest import base_seed
from storage.checkpoints import MODEL, QUICK, STATES, newest, plain, resume
from storage.comparing import different
from storage.forged import KINDS, ODD, REFUSED, build, forge_array, forge_header, rewrite
from storage.resumed import SAMPLING, interrupted


@pytest.fixture(scope="module", params=["draws", "means", pytest.param("path", marks=pytest.mark.slow)])
def kept(request, tmp_path_factory):
    """Return a checkpoint with two generations in the middle of a run, and how that ends."""
    folder = tmp_path_factory.mktemp("kept") / request.param
    options = {**QUICK, "chains": 2, "draws": 30, "keep": request.param}
    early = interrupted(lambda **seen: bouncy.sample(MODEL, checkpoint=folder, **options, **seen), SAMPLING)
    assert 10 < early.draws_per_chain < 30
    later = interrupted(
        lambda **seen: bouncy.resume(folder, MODEL, **seen),
        lambda seen: seen.chains[0].draws > early.draws_per_chain + 2,
    )
    # The first is written again when a run is resumed, and the last when it stops.
    assert later.draws_per_chain > early.draws_per_chain
    return folder, plain(**options), request.param


def _outcome(folder, whole):
    """Resume, and return the text of the warnings, or of the error. Nothing else may come of it."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            run = resume(folder)
        except CheckpointError as error:
            return f"error: {error}"
    assert all(issubclass(item.category, CheckpointWarning) for item in told), [str(item.message) for item in told]
    assert different(run, whole) == []
    return "; ".join(str(item.message) for item in told)


def _copied(kept, tmp_path, name):
    folder = tmp_path / name
    shutil.copytree(kept[0], folder)
    return folder


# Damage


@pytest.mark.slow
def test_damaged_states_are_passed_over(kept, tmp_path):
    """Catches a state that is taken although it was cut short or a single bit of it is wrong."""
    rng = np.random.default_rng(base_seed())
    for k in range(40):
        folder = _copied(kept, tmp_path, str(k))
        file = folder / STATES[k % 2]
        content = bytearray(file.read_bytes())
        if k < 15:
            content = content[: int(rng.integers(len(content)))]
        else:
            content[_covered(content, rng)] ^= 1 << int(rng.integers(8))
        file.write_bytes(content)
        told = _outcome(folder, kept[1])
        assert str(file) in told and "is used instead" in told, f"{k}: {told}"  # noqa: PT018


def _covered(content, rng):
    """Return a random place in the header of an archive."""
    return int(rng.integers(content.index(b"{"), content.index(b"PK\x03\x04", 4)))


def test_every_cut_and_any_bit_is_noticed(kept, tmp_path):
    """Catches a digest that does not cover all that is read."""
    content = kept[0].joinpath(STATES[0]).read_bytes()
    truth = read_archive(kept[0] / STATES[0])
    file = tmp_path / "state"
    rng = np.random.default_rng(base_seed())
    lengths = [*range(80), *rng.integers(len(content), size=30).tolist(), len(content) - 1]
    for damaged in [content[:n] for n in lengths] + [content + b"x"]:
        file.write_bytes(damaged)
        with pytest.raises(ArchiveError, match="state: "):
            read_archive(file)
    refused = 0
    for _ in range(300):
        bits = bytearray(content)
        bits[int(rng.integers(len(bits)))] ^= 1 << int(rng.integers(8))
        file.write_bytes(bits)
        try:
            header, arrays = read_archive(file)
        except ArchiveError:
            refused += 1
            continue
        # A bit of the zip directory, a date or a CRC, none of which is read.
        assert header == truth[0]
        assert all(arrays[name].tobytes() == truth[1][name].tobytes() for name in truth[1])
    assert refused > 200


def test_damaged_rows_are_refused_by_name(kept, tmp_path):
    """Catches draws that have changed on disk, or are missing, and are returned all the same."""
    rng = np.random.default_rng(base_seed())
    names = sorted(file.name for file in kept[0].glob("*.rows"))
    assert bool(names) == (kept[2] != "means")
    for k in range(3 * len(names)):
        folder = _copied(kept, tmp_path, f"{kept[2]}{k}")
        file = folder / names[k % len(names)]
        content = bytearray(file.read_bytes())
        assert content
        way = k // len(names)
        if way == 0:
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        elif way == 1:
            content = content[: int(rng.integers(len(content)))]
        file.write_bytes(content)
        if way == 2:
            file.unlink()
        told = _outcome(folder, kept[1])
        assert file.name in told, told
        assert "is used instead" in told or told.startswith("error"), told


def test_missing_swapped_and_foreign_files(kept, tmp_path):
    """Catches a silent restart, or any other exception, where files are gone, exchanged or something else."""
    last = newest(kept[0]).name
    older = STATES[last == STATES[0]]

    def damaged(name, change):
        folder = _copied(kept, tmp_path, name)
        change(folder)
        return _outcome(folder, kept[1])

    assert damaged("without the older", lambda folder: (folder / older).unlink()) == ""
    damaged("without the newer", lambda folder: (folder / last).unlink())
    told = damaged("empty", lambda folder: (folder / last).write_bytes(b""))
    assert "is empty" in told
    assert f"{older} is used" in told
    told = damaged("folder", lambda folder: ((folder / last).unlink(), (folder / last).mkdir()))
    assert f"{last}: is a directory" in told
    told = damaged("pipe", lambda folder: ((folder / last).unlink(), os.mkfifo(folder / last)))
    assert f"{last}: is not a regular file" in told
    told = damaged("both", lambda folder: [(folder / name).write_bytes(b"x") for name in (last, older)])
    assert told.startswith("error")
    assert all(f"{name}: " in told for name in STATES)
    told = damaged("none", lambda folder: [(folder / name).unlink() for name in (last, older)])
    assert told.startswith("error: ")
    assert "are gone" in told or "no checkpoint" in told
    assert damaged("same", lambda folder: shutil.copy(folder / last, folder / older)) == ""


def test_newest_generation_is_not_overwritten_first(kept, tmp_path):
    """Catches a resumed run that writes over the generation it has just been read from."""
    folder = _copied(kept, tmp_path, "swapped")
    last = newest(folder)
    older = folder / STATES[last.name == STATES[0]]
    generation = read_archive(last)[0]["generation"]
    (folder / "aside").write_bytes(last.read_bytes())
    last.write_bytes(older.read_bytes())
    (folder / "aside").rename(older)  # the newest generation is now in the other file
    # It is written twice: when it begins, and when it ends.
    interrupted(lambda **seen: bouncy.resume(folder, MODEL, checkpoint_every=1000.0, **seen), lambda seen: True)
    assert [read_archive(file)[0]["generation"] for file in (last, older)] == [generation + 1, generation + 2]
    assert different(resume(folder), kept[1]) == []


# Forged files


def _forge(folder, change):
    """Change header and arrays of both states, with digests that are right."""
    for name in STATES:
        if (folder / name).exists():
            rewrite(folder / name, change)


def _is_refused(folder, target=MODEL):
    """Read a checkpoint as `resume` does, without running it; allow nothing but a `CheckpointError`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointWarning)
        try:
            read_checkpoint(folder, target, check=lambda run: restored_workers(run._data))
        except CheckpointError:
            return True
    return False


def _fresh(source, folder):
    for name in STATES:
        shutil.copy(source / name, folder)


# Entries that are told and not used, or say what is so already.
_NOT_USED = {"generation", "stopped_by", "seed", "recordings", "warmup_seconds", "cpu_seconds", "sweep_time", "rates"}
_NOT_USED |= {"choice"}
_NOT_USED |= {"chooses_warmup", "warmup_sweeps", "goal", "thin"}


@pytest.mark.slow
def test_entries_of_the_header_with_wrong_values_are_refused(kept, tmp_path):
    """Catches an entry that is used without a look at its type and size: for each of them, many odd values."""
    folder = _copied(kept, tmp_path, "c")
    header, _ = read_archive(kept[0] / STATES[0])
    assert not _is_refused(folder)
    for key in header:
        for value in ODD[::3] if kept[2] == "draws" else ODD[1::6]:
            _fresh(kept[0], folder)
            _forge(folder, lambda header, arrays, key=key, value=value: header.update({key: value}))
            refused = _is_refused(folder)
            assert refused or key in _NOT_USED or header[key] == value, f"{key}: {value!r:.30}"
        _fresh(kept[0], folder)
        _forge(folder, lambda header, arrays, key=key: header.pop(key))
        assert _is_refused(folder) or key in ("lanes", "choice"), f"without {key}"  # version 0.2 had none


@pytest.mark.parametrize(
    ("outer", "inner", "values"),
    [
        ("goal", "draws", [0, -1, 0.5, "x", True, None, 10**400]),
        ("goal", "seconds", [0, -1.0, "x", True, float("nan"), float("inf"), 10**400]),
        ("goal", "until_se", [0, -1.0, "x", [], float("nan")]),
        ("goal", "se_of", [None, "x", "a function of states", []]),
        ("goal", "next_look", [None, -1, 0.5, 2**63]),
        ("sampler", "class", [None, "os.system", [], {}, 3]),
        ("sampler", "settings", [None, {"x": 1}, [], {"augmentation": "gaussian", "refreshment": 10**400}]),
        ("target", "d", [0, 7, 2**62, None]),
        ("target", "shape", [[2, 2], "x", [0]]),
        ("target", "kind", ["paths", None, []]),
        ("target", "selects_variables", [None, 0, "x"]),
        ("target", "log_size", [None, "x", -1.0]),
        ("origin", "versions", [None, []]),
    ],
)
def test_nested_entries_with_wrong_values_are_refused(outer, inner, values, kept, tmp_path):
    """Catches a nested entry that is trusted: a bound of nothing, draws that are no number, a sampler of others."""
    folder = _copied(kept, tmp_path, "c")
    for value in values:
        _fresh(kept[0], folder)
        _forge(folder, lambda header, arrays, value=value: header[outer].update({inner: value}))
        assert _is_refused(folder), value


def test_seeds_with_wrong_values_are_refused(kept, tmp_path):
    """Catches a seed of a huge pool, or of what is no number."""
    folder = _copied(kept, tmp_path, "c")
    right = {"entropy": 11, "spawn_key": [], "pool_size": 4, "n_children_spawned": 0}
    for name, value in [("pool_size", 10**9), ("entropy", "x"), ("entropy", []), ("entropy", [-1]), ("x", 1),
                        ("spawn_key", 3), ("spawn_key", ["x"]), ("n_children_spawned", -1)]:  # fmt: skip
        _fresh(kept[0], folder)
        _forge(folder, lambda header, arrays, name=name, value=value: header.update(seed={**right, name: value}))
        assert _is_refused(folder), (name, value)
    _fresh(kept[0], folder)
    _forge(folder, lambda header, arrays: header.update(seed=right))
    assert not _is_refused(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.pop("state.clock.rng"),
        lambda arrays: arrays.update({"state.clock.rng": arrays["state.clock.rng"].astype(np.float64)}),
        lambda arrays: arrays.update({"state.clock.rng": arrays["state.clock.rng"][:, :3]}),
        lambda arrays: arrays["state.clock.rng"].fill(0),
        lambda arrays: arrays.update({"state.more": np.zeros((2, 3))}),
        lambda arrays: arrays.update({"state.s": np.ones((3, 6), np.int8)}),
        lambda arrays: arrays.update({"state.s": np.ones((2, 2, 3), np.int8)}),
        lambda arrays: arrays.update({"state.s": np.ones((2, 5), np.int8)}),
        lambda arrays: arrays.update({"more": np.zeros(3)}),
        lambda arrays: arrays["state.s"].__setitem__((0, 0), 5),
        lambda arrays: arrays["state.s"].__setitem__((0, 0), -128),
        lambda arrays: arrays["state.clock.site"].__setitem__((0, 0), 6),
        lambda arrays: arrays["state.clock.count"].__setitem__((0, 2), 99),
        lambda arrays: arrays["state.clock.leg"].__setitem__((0, 6), np.nan),
        lambda arrays: arrays["state.sweeps"].__setitem__((0, 0), -5),
        lambda arrays: arrays["state.sweeps"].__setitem__((slice(None), 0), 10**6),
        lambda arrays: arrays["state.cpu_seconds"].__setitem__(0, np.nan),
        lambda arrays: arrays.update({"open.mean": arrays["open.mean"][:, :-1]}),
        lambda arrays: arrays.update({"batches.mean": arrays["batches.mean"][:, :-1]}),
        lambda arrays: arrays.update({"labels": np.frombuffer(b"[" * 100_000, np.uint8)}),
        lambda arrays: arrays.update({"labels": np.frombuffer(b'[{}, 1, 2, 3, 4, 5]', np.uint8)}),
        lambda arrays: arrays.update({"labels": np.frombuffer(b"\xff\xfe", np.uint8)}),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(change, kept, tmp_path):
    """Catches an array that compiled code would trust: missing, too many, of another type or shape, out of range."""
    folder = _copied(kept, tmp_path, "c")
    _forge(folder, lambda header, arrays: change(arrays))
    assert _is_refused(folder)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("factors", "view.inside.at", 10**6),
        ("factors", "view.inside.at", 0),
        ("factors", "view.fault", 1),
        ("clamped", "view.inside.at", 3),
        ("selection", "view.inside.order", 5),
        ("selection", "view.inside.place", 4),
        ("selection", "view.inside.tally", 6),
        ("hmc", "view.inside.value", np.inf),
        ("custom", "view.inside.trial", 3),
        ("within", "generator", 2**64 - 1),
        ("within", "generator", 0),
    ],
)
def test_forged_caches_of_a_target_are_refused(kind, name, value, tmp_path):
    """Catches places in tables, orders of variables or failures that compiled code would take from a file."""
    target = build(kind, tmp_path / "c")
    assert not _is_refused(tmp_path / "c", target)
    _forge(tmp_path / "c", lambda header, arrays: arrays[f"state.{name}"].fill(value))
    assert _is_refused(tmp_path / "c", target)


def test_forged_rows_are_refused(kept, tmp_path):
    """Catches rows in files, or traces of constant memory, that are not as many as the sweeps of the chains give."""
    folder = _copied(kept, tmp_path, "c")
    changes = [("count", 5), ("count", -1), ("spacing", 0), ("spacing", 3), ("spacing", 2**60), ("label", "../x"),
               ("label", "draws.0"), ("file", 2**40), ("file", "x")]  # fmt: skip
    for name, value in changes:
        _fresh(kept[0], folder)
        _forge(folder, lambda header, arrays, name=name, value=value: header["rows"][0].update({name: value}))
        assert _is_refused(folder) or (name, kept[2]) == ("spacing", "means"), (name, value)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["c"]


def test_forged_counts_and_sites_of_a_path_are_refused(tmp_path):
    """Catches a site beyond the last one, or a negative number of flips, from which compiled code would read."""
    path = tmp_path / "run.npz"
    plain(keep="path").save(path)
    labels = [entry["label"] for entry in read_archive(path)[0]["rows"]]
    for label, value in (("flip_site.0", 6), ("flip_site.0", -1), ("flip_count", -1)):
        name = f"rows.{labels.index(label)}"
        shutil.copy(path, tmp_path / "forged.npz")
        rewrite(tmp_path / "forged.npz", lambda header, arrays, name=name, value=value: arrays[name].fill(value))
        with pytest.raises(RunFileError, match=label.partition(".")[0]):
            bouncy.Run.load(tmp_path / "forged.npz")


def _loaded(path, target):
    """Load a run with and without its target, and return whether that was refused by one of the allowed errors."""
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for given in (None, target):
            try:
                run = bouncy.Run.load(path, given)
                restored_workers(run._data) if given is not None else None
                results.append(False)
            except REFUSED:
                results.append(True)
    return results


FEW = ("draws", "means", "path", "factors", "continuous", "density", "within", "flock", "ladder of factors")


@pytest.mark.parametrize(
    ("kinds", "cases"), [(FEW[::4], 8), pytest.param(tuple(KINDS), 150, marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_random_forgeries_are_loaded_or_refused(kinds, cases, tmp_path, seed):
    """Catches a TypeError, an IndexError or any other error that says nothing: forged headers and arrays of all kinds.

    Half of them are files, half checkpoints; with and without their targets.
    """
    rng = np.random.default_rng([seed, 1])
    refused = 0
    for kind in kinds:
        folder, file = tmp_path / kind, tmp_path / f"{kind}.npz"
        target = build(kind, folder)
        bouncy.Run.load(folder).save(file)
        state = newest(folder)
        (folder / STATES[state.name == STATES[0]]).unlink()
        originals = {path: read_archive(path) for path in (file, state)}
        for case in range(cases):
            path = (file, state)[case % 2]
            header, arrays = copy.deepcopy(originals[path])
            done = [
                forge_header(header, rng) if rng.random() < 0.5 else forge_array(arrays, rng)
                for _ in range(int(rng.integers(1, 3)))
            ]
            try:
                with open(path, "wb") as out:
                    write_archive(out, header, arrays)
                refused += any(_loaded(path if path is file else folder, target))
            except Exception as error:
                error.add_note(f"{path.name} of {kind}: {done}")
                raise
    assert refused > len(kinds) * cases // 2


def _without_expectations(header, arrays):
    """Leave what a sampler that records no expectations would have recorded."""
    for part in ("open", "batches"):
        for name in ("pull", "spread", "response"):
            del arrays[f"{part}.{name}"]
        for name in ("mean", "square", "cell", "products"):
            arrays[f"{part}.{name}"] = arrays.pop(f"{part}.path_{name}")


@pytest.mark.parametrize("sampler", ["gibbs", "bps"])
def test_a_run_that_lacks_the_expectations_of_its_target_is_refused(sampler, tmp_path):
    """Catches a run that goes on with other sums than it has."""
    target = bouncy.TruncatedGaussian([0.0, 0.5], cov=[[1.0, 0.3], [0.3, 1.0]], lower=0.0)
    bouncy.sample(target, sampler, checkpoint=tmp_path / "c", chains=2, draws=20, warmup=20, seed=1, progress=False)
    assert not _is_refused(tmp_path / "c", target)
    _forge(tmp_path / "c", _without_expectations)
    assert _is_refused(tmp_path / "c", target)


def _forged_in_children(folder, cases, kinds=()):
    script = Path(__file__).with_name("forged.py")
    places = os.pathsep.join([str(Path(bouncy.__file__).parents[1]), str(script.parents[1])])
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": places}
    command = [sys.executable, str(script), str(folder), str(base_seed()), str(cases), *kinds]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "0 problems" in done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("kinds", "cases"), [(FEW, 12), pytest.param((), 600, marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_forged_states_neither_crash_nor_hang(kinds, cases, tmp_path):
    """Catches a state of a clock, a motion or a cache that leads compiled code beyond an array, or round for ever."""
    _forged_in_children(tmp_path, cases, kinds)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("kind", ["factors", "continuous", "density", "flock"])
def test_all_odd_numbers_in_all_arrays_of_a_state(kind, tmp_path):
    """Catches the same for each entry of each array of a worker, with each of ten odd numbers."""
    _forged_in_children(tmp_path, 0, (kind,))


# Version 0.1


def test_checkpoints_of_version_0_1_are_refused_by_name(tmp_path):
    """Catches an old checkpoint that is taken for a damaged one, or overwritten by a new run."""
    for name in ("state-0", "state-1"):
        (tmp_path / name).write_bytes(b"bouncy state 1\n" + bytes(100))
    for attempt in (lambda: resume(tmp_path), lambda: bouncy.Run.load(tmp_path)):
        with pytest.raises(CheckpointError, match=r"version 0\.1"):
            attempt()
    with pytest.raises(CheckpointError, match=r"version 0\.1"):
        bouncy.sample(MODEL, checkpoint=tmp_path, progress=False, **QUICK)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["state-0", "state-1"]


def test_other_versions_of_the_format_are_refused_by_name(tmp_path):
    """Catches a run of a later format that is read as one of this format."""
    path = tmp_path / "run.npz"
    plain().save(path)

    def change(header, arrays):
        header["version"] = 99
        header["origin"]["versions"]["bouncy"] = "7.0"

    rewrite(path, change)
    with pytest.raises(RunFileError, match=r"version 7\.0 of bouncy in format 99"):
        bouncy.Run.load(path)
