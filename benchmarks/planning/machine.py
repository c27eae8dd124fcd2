"""Where and on what something was measured, in a line. Does not belong here: numbers."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from tests.servers.postgres import find_binaries

ROOT = Path(__file__).resolve().parents[2]


def machine() -> str:
    commit, changed = (
        _run("git", "rev-parse", "--short", "HEAD"),
        _run("git", "status", "--porcelain"),
    )
    postgres = _run(str(find_binaries() / "postgres"), "--version").split()[2]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    of = f"{datetime.now(UTC):%Y-%m-%d} at {commit}{'+' if changed else ''}"
    software = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, PostgreSQL {postgres}"
    return f"Measured {of}: {software}, {os.cpu_count()} cores, {memory:.0f} GB, load {os.getloadavg()[2]:.1f}."


def _run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
