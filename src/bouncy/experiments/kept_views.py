"""The views on disk, so that a report can be written again without measuring them again."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from bouncy.experiments.keeping import origin_of, replace_file
from bouncy.experiments.settings import ViewSettings
from bouncy.experiments.views import CHAINS, View, Views, measure_views

FILE = "views.npz"
_FIELDS = ("lag_seconds", "autocorrelation", "holding_times", "magnetisation", "magnetisation_seconds")
# Far more than the views of any settings take.
_MOST_BYTES = 1 << 28


def keep_views(
    directory: Path, settings: ViewSettings, seed: int, workers: int | None = None, progress: bool | None = None
) -> Views:
    """Return the views in `<directory>/views.npz`, or measure them and keep them there.

    Views of other settings, another seed, version or machine are measured again, and so are those in a damaged file.
    """
    path = directory / FILE
    views = read_views(path, settings, seed)
    if views is None:
        views = measure_views(settings, seed, workers, progress)
        write_views(path, views, settings)
    return views


def write_views(path: Path, views: Views, settings: ViewSettings) -> None:
    """Write views, and what they were measured with, into a file, whose directory is made if need be."""
    arrays: dict[str, Any] = {"origin": np.array(json.dumps(origin_of(settings, views.seed)))}
    for view in views.curves:
        for field in _FIELDS:
            arrays[_key(view.edition, view.sampler, field)] = np.asarray(getattr(view, field))
    content = io.BytesIO()
    np.savez(content, **arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content.getvalue())


def read_views(path: Path, settings: ViewSettings, seed: int) -> Views | None:
    """Return the views in a file, or None if there are none that a measurement here and now could have made."""
    if not path.exists():
        return None
    try:
        arrays = _load(path)
        if json.loads(str(arrays["origin"])) != origin_of(settings, seed):
            return None
        curves = [_view(edition, sampler, arrays) for edition, sampler in CHAINS]
    except Exception:  # bytes that were changed can lead to any of them, and the remedy is always the same
        return None
    return Views(settings.d, settings.sigma_M, settings.sigma_r, seed, curves)


def _load(path: Path) -> dict[str, Any]:
    """Return all arrays of a file. Their checksums are verified; nothing in the file is executed."""
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > _MOST_BYTES:
        raise ValueError(f"{path} holds {size} bytes; expected at most {_MOST_BYTES}")
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def _view(edition: str, sampler: str, arrays: dict[str, Any]) -> View:
    lag_seconds, *others = (arrays[_key(edition, sampler, field)] for field in _FIELDS)
    return View(edition, sampler, float(lag_seconds), *others)


def _key(edition: str, sampler: str, field: str) -> str:
    return f"{edition} {sampler} {field}"
