"""The folder for files that are fetched or made once for a user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_CACHE_HOME/headgate`, else `~/.cache/headgate`; it may not be there yet."""
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headgate"
