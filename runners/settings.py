"""Execution settings: what changes speed and never content. They live in a git-ignored `qualm.toml` and in
environment variables (`QUALM_BATCH_SIZE=64`), so that no result depends on them and editing them runs nothing again.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

FILE = Path("qualm.toml")


class SettingsError(Exception):
    """A setting that does not exist or has the wrong type."""


@dataclass(frozen=True)
class Settings:
    """Local settings; the environment wins over the file, the file over these defaults."""

    device: str = "auto"
    """`auto`, `cpu`, `cuda`, `mps`: as Lightning's accelerator."""
    batch_size: int = 32
    """Prompts in one forward pass."""
    workers: int = 0
    """Processes that make data; 0 = one per core."""
    progress: bool = True
    """Progress bars on standard error."""


def read_settings(file: Path = FILE) -> Settings:
    """Settings from `qualm.toml` (flat `key = value`) and `QUALM_*` variables.

    Raises:
        SettingsError: an unknown key, or a value of the wrong type.
    """
    values: dict[str, Any] = {}
    known: dict[str, type[Any]] = {f.name: type(getattr(Settings(), f.name)) for f in fields(Settings)}
    if file.is_file():
        try:
            raw = tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingsError(f"{file}: not TOML: {error}") from error
        for key, value in raw.items():
            if key not in known:
                raise SettingsError(f"{file}: unknown setting '{key}'; there are: {', '.join(known)}")
            if type(value) is not known[key]:
                raise SettingsError(f"{file}: {key}: expected {known[key].__name__}, got {value!r}")
            values[key] = value
    for key, kind in known.items():
        text = os.environ.get(f"QUALM_{key.upper()}")
        if text is None:
            continue
        try:
            values[key] = text.lower() in ("1", "true", "yes") if kind is bool else kind(text)
        except ValueError:
            raise SettingsError(f"QUALM_{key.upper()}: expected {kind.__name__}, got '{text}'") from None
    settings = Settings(**values)
    if settings.batch_size < 1 or settings.workers < 0:
        raise SettingsError(f"batch_size must be at least 1 and workers at least 0, got {settings.batch_size} and {settings.workers}")
    return settings
