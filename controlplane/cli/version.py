"""The version of Headgate. Imports nothing else of ours: scripts run `headgate --version` often."""

from __future__ import annotations

import sys
from importlib.metadata import version


def write_version() -> None:
    sys.stdout.write(f"headgate {version('headgate')}\n")
