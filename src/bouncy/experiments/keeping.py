"""How measurements are kept on disk: what they were measured with, and files that are replaced in one step."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import bouncy
from bouncy.experiments.machine import describe
from bouncy.experiments.settings import Settings, ViewSettings


def origin_of(settings: Settings | ViewSettings, seed: int) -> dict[str, Any]:
    """Return, as it comes back from JSON, what a measurement here and now would be made with.

    Only measurements of the same origin may stand beside each other: same version, seed, machine and settings.
    """
    origin = {"version of bouncy": bouncy.__version__, "seed": seed, **describe(), **asdict(settings)}
    found: dict[str, Any] = json.loads(json.dumps(origin))
    return found


def replace_file(path: Path, content: bytes) -> None:
    """Give a file a new content in one step: whatever happens, it has the old one or the new one."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
