"""numba's flags and its disk cache, set once for the whole package.

numba's own cache notices an edit only in the file that holds the compiled function, numbers its files so that two
processes may overwrite each other's, and trusts any directory it can write to although its files are pickles. Here an
entry is one file, named after the function, its argument types and the machine, that carries a stamp of all sources
the compiled code can come from. Code from other sources is never served, and nothing is read from a place where
somebody else could have put it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import re
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba import config, njit, types
from numba.extending import register_jitable

from bouncy._inlining import INLINED

Function = TypeVar("Function", bound=Callable[..., Any])

_ROOT = Path(__file__).resolve().parent
# Packages whose kernels are kept on disk, with the directories of their sources.
_packages = {"bouncy": _ROOT}
_DIGEST_SIZE = 32  # bytes of a SHA-256

helper = register_jitable(**INLINED)
_settings: Any = config  # its attributes are made at run time


# Compiles functions that can neither allocate nor count references, and so pay for neither.
without_memory: Any = njit(nogil=True, error_model="numpy", _nrt=False, no_cfunc_wrapper=True)  # type: ignore[call-overload]


class CacheWarning(RuntimeWarning):
    """Compiled code cannot be kept on disk, so that every new process compiles it again."""


def kernel(function: Function) -> Function:
    """Compile a function on its first call, without the GIL, and keep the result on disk.

    Only functions of this package, and of those passed to `keep_kernels_of`, are kept on disk: the stamp does not
    cover the sources of others.
    """
    compiled: Any = without_memory(function)
    if compiled is not function and _name(function.__module__, _first_sources()) is not None:
        _keep_on_disk(compiled, function)
    return compiled  # type: ignore[no-any-return]


def _keep_on_disk(compiled: Any, function: Callable[..., Any]) -> None:
    """Give a dispatcher its cache, unless this numba keeps it elsewhere than the ones we know."""
    _stamp(function.__module__)  # now: an edit between import and first call must not be credited to code in memory
    if hasattr(compiled, "_cache"):
        compiled._cache = _DiskCache(function)
    else:
        _stop_caching(f"numba {numba.__version__} has no cache where bouncy looks for it")


def keep_kernels_of(package: str, directory: Path) -> None:
    """Keep the kernels of another package on disk too; call this before the package is imported.

    Its sources enter the stamps of its own kernels, never those of this package.
    """
    _packages[package] = directory
    _first_sources().update(_read_sources(package))


class _DiskCache:
    """What a numba dispatcher asks of its cache, on one file per function and types of arguments.

    A file holds the stamp of the sources, the SHA-256 of what follows, and the pickled (key, compiled code). numba
    calls `load_overload` and `save_overload` under its global compiler lock.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._module = function.__module__
        self._name = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")

    @property
    def cache_path(self) -> str | None:
        directory = cache_directory()
        return None if directory is None else str(directory)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the compiled code for a signature, or None when it has to be compiled."""
        target_context.refresh()
        if not _is_cachable(signature, self._module):
            return None
        try:
            key = self._key(signature, target_context.codegen())
            payload = _read(self._path(key), _stamp(self._module))
            if payload is None:
                return None
            stored_key, reduced = pickle.loads(payload)
            return _rebuild(target_context, reduced) if stored_key == key else None
        except Exception as error:
            _stop_caching(f"reading back {self._name} with numba {numba.__version__} failed with {error!r}")
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Write compiled code, unless it would not be valid in another process."""
        if not _is_cachable(signature, self._module):
            return
        try:
            if result.library.has_dynamic_globals:
                _stop_caching(f"{self._name} refers to a machine address or a large array as a global")
            elif all(_is_on_disk(name, content) for name, content in _stamped_sources(self._module).items()):
                key = self._key(signature, result.library.codegen)
                _write(self._path(key), _stamp(self._module), _dumps((key, result._reduce())))
        except Exception as error:
            _stop_caching(f"writing {self._name} with numba {numba.__version__} failed with {error!r}")

    def enable(self) -> None:
        """Do nothing: the cache is on wherever it can be."""

    def disable(self) -> None:
        """Do nothing: the cache is on wherever it can be."""

    def flush(self) -> None:
        """Do nothing: entries of other sources are overwritten, never served."""

    def _key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        """Return all that the code depends on beside the sources: types, machine, versions, switches, closure."""
        code = self._function.__code__
        cells = tuple(cell.cell_contents for cell in self._function.__closure__ or ())
        versions = (sys.version, numba.__version__, np.__version__)
        switches = (str(_settings.OPT), str(_settings.BOUNDSCHECK))
        return signature, codegen.magic_tuple(), versions, switches, code.co_firstlineno, _digest(_dumps(cells))

    def _path(self, key: tuple[Any, ...]) -> Path:
        directory = cache_directory()
        assert directory is not None
        return directory / f"{self._name}.{_digest(repr(key).encode()).hex()[:16]}.nbc"


def _dumps(content: Any) -> bytes:
    from numba.core import serialize  # private to numba: an unknown layout must not break the import

    dumps: Callable[[Any], bytes] = serialize.dumps
    return dumps(content)


def _rebuild(target_context: Any, reduced: tuple[Any, ...]) -> Any:
    from numba.core import compiler  # private to numba, as above

    rebuild: Callable[..., Any] = compiler.CompileResult._rebuild
    return rebuild(target_context, *reduced)


def _is_cachable(signature: Any, module: str) -> bool:
    """Say whether there is a cache and the stamp of a module covers all sources of the code for a signature."""
    arguments = getattr(signature, "args", signature)
    return all(_is_covered(argument, module) for argument in arguments) and cache_directory() is not None


def _is_covered(argument: Any, module: str) -> bool:
    """Say whether a stamp covers the code for one numba type: no functions, no named tuples of other modules."""
    if isinstance(argument, types.Callable):
        return False
    if isinstance(argument, types.CPointer):
        return _is_covered(argument.dtype, module)
    if isinstance(argument, types.BaseNamedTuple):
        sources = _stamped_sources(module)
        if _name(argument.instance_class.__module__, sources) is None:  # type: ignore[attr-defined]
            return False
    return not isinstance(argument, types.BaseTuple) or all(_is_covered(part, module) for part in argument)  # type: ignore[attr-defined]


# The stamp


# Declares a part or gives a function of one: code that any loop may be compiled with.
_PART = re.compile(rb"^@(part|target_part|generic|implements)\b", re.MULTILINE)
_IMPORT = re.compile(rb"^(?:from|import) (\w+\.[\w.]+)(?: import ([^(\n]+|\([^)]+\)))?", re.MULTILINE)


@functools.cache
def _stamp(module: str) -> bytes:
    """Return the hash of the sources of compiled code as they were when its package was imported."""
    return _hash_sources(_stamped_sources(module))


@functools.cache
def _stamped_sources(module: str) -> dict[str, bytes]:
    return _sources_of(module, _first_sources())


@functools.cache
def _first_sources() -> dict[str, bytes]:
    return _read_sources("bouncy")


def _read_sources(*packages: str) -> dict[str, bytes]:
    """Return the sources of packages by the names of their modules."""
    return {
        ".".join((package, *path.relative_to(_packages[package]).with_suffix("").parts)): path.read_bytes()
        for package in packages
        for path in _packages[package].rglob("*.py")
        if path.is_file()  # editors leave dangling links behind
    }


def _is_on_disk(name: str, content: bytes) -> bool:
    """Say whether the file of a module still has a content."""
    package, *parts = name.split(".")
    path = _packages[package].joinpath(*parts).with_suffix(".py")
    return path.is_file() and path.read_bytes() == content


def _sources_of(module: str, sources: dict[str, bytes]) -> dict[str, bytes]:
    """Return the sources that the compiled functions of a module can come from.

    These are the module itself, all modules of this package that declare or implement parts, since a loop is compiled
    with any of them, and everything that these import when they are imported.
    """
    found = [name for name, content in sources.items() if name.startswith("bouncy.") and _has_parts(content)]
    found.append(module)
    seen: dict[str, bytes] = {}
    while found:
        name = _name(found.pop(), sources)
        if name is not None and name not in seen:
            seen[name] = sources[name]
            found += _imported_by(sources[name])
    return seen


def _name(module: str, sources: dict[str, bytes]) -> str | None:
    """Return the name of a module, or of the `__init__` of a package, among sources; None if it is not there."""
    return next((name for name in (module, f"{module}.__init__") if name in sources), None)


def _hash_sources(sources: dict[str, bytes]) -> bytes:
    hasher = hashlib.sha256()
    for name in sorted(sources):
        hasher.update(f"{name}:{len(sources[name])}:".encode())
        hasher.update(sources[name])
    return hasher.digest()


@functools.cache
def _has_parts(content: bytes) -> bool:
    return _PART.search(content) is not None


@functools.cache
def _imported_by(content: bytes) -> list[str]:
    """Return the names that a source imports from packages at its top level, modules or not."""
    names = []
    for package, items in _IMPORT.findall(content):
        names.append(package.decode())
        names += [f"{package.decode()}.{item}" for item in re.findall(r"\w+", items.decode())]
    return names


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


# Files


def _read(path: Path, stamp: bytes) -> bytes | None:
    """Return what `_write` wrote with a stamp, or None where it is missing, old, damaged or not ours."""
    try:
        with path.open("rb") as file:
            if not _is_private(os.fstat(file.fileno())):
                return None
            content = file.read()
    except FileNotFoundError:
        return None
    found, checksum = content[:_DIGEST_SIZE], content[_DIGEST_SIZE : 2 * _DIGEST_SIZE]
    payload = content[2 * _DIGEST_SIZE :]
    return payload if found == stamp and checksum == _digest(payload) else None


def _write(path: Path, stamp: bytes, payload: bytes) -> None:
    """Replace a file in one step, so that another process sees the old content or the new one."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with open(descriptor, "wb") as file:
            file.write(stamp + _digest(payload) + payload)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


# The directory

_stopped = False


@functools.cache
def _chosen_directory() -> Path | None:
    """Return the first directory that is private and writable; without any, warn and return None."""
    tried = []
    for directory in _candidates():
        try:
            _make_private(directory)
            tempfile.TemporaryFile(dir=directory).close()
            return directory
        except OSError as error:
            tried.append(f"{directory} ({error.strerror or error})")
    _stop_caching(f"no cache directory is private and writable; tried {', '.join(tried)}")
    return None


def cache_directory() -> Path | None:
    """Return the directory of compiled code, or None when caching is off."""
    return None if _stopped else _chosen_directory()


def _stop_caching(reason: str) -> None:
    """Compile without a cache from here on, and say so once in a process."""
    global _stopped
    if not _stopped:
        _stopped = True
        warnings.warn(
            f"bouncy compiles again in every process (some seconds) because compiled code cannot be kept on disk: "
            f"{reason}. Set NUMBA_CACHE_DIR to a directory that you own and that only you can write to.",
            CacheWarning,
            stacklevel=2,
        )


def _candidates() -> Iterator[Path]:
    """Yield the directories to try: the one asked for, the one beside the sources, the user's own."""
    label = f"bouncy-{_digest(os.fsencode(_ROOT)).hex()[:16]}"
    if _settings.CACHE_DIR:
        yield Path(_settings.CACHE_DIR).absolute() / label
    if sys.platform != "win32":  # there, a directory outside the user's profile may be open to others
        yield _ROOT / "__pycache__"
    user_wide = _user_cache()
    if user_wide.is_absolute():
        yield user_wide / "bouncy" / label


def _user_cache() -> Path:
    """Return the platform's place for caches of this user."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", ""))
    if sys.platform == "darwin":
        return Path(os.path.expanduser("~/Library/Caches"))
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))


def _make_private(directory: Path) -> None:
    """Create a directory where it is missing; raise PermissionError where others could write to it."""
    existing = directory
    while not existing.exists():
        existing = existing.parent
    _require_private(existing)
    missing = [path for path in (directory, *directory.parents) if path.is_relative_to(existing) and path != existing]
    for path in reversed(missing):
        path.mkdir(mode=0o755, exist_ok=True)  # whatever the umask: never writable by others
    _require_private(directory)


def _require_private(path: Path) -> None:
    if not _is_private(path.stat()):
        raise PermissionError(f"{path} belongs to another user or can be written to by others")


def _is_private(status: os.stat_result) -> bool:
    """Say whether only we and root can write to a file or directory."""
    if sys.platform == "win32":  # no modes: the candidates lie where the access lists keep others out
        return True
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
