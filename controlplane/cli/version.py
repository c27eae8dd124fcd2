"""The version of Headgate. Imports nothing else of ours: `headgate --version` is asked by scripts, and often."""

from __future__ import annotations

import sys
from importlib.metadata import version


def write_version() -> None:
    sys.stdout.write(f"headgate {version('headgate')}\n")
