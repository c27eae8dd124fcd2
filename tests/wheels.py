"""Small wheels made on the spot, and an installer that finds nothing else: no package index is
asked."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest


def wheel(
    folder: Path, name: str, version: str, text: str, more: Mapping[str, bytes] | None = None
) -> None:
    """A distribution with one module of its own name, and perhaps more files."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files: dict[str, str | bytes] = {
        f"{name}.py": text,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: not-there\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **(more or {}),
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, content in (*files.items(), (f"{info}/RECORD", record)):
            archive.writestr(path, content)


def only_from(folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the process's environment: where packages come from, and where they are kept."""
    for name, value in {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
        "PIP_CONFIG_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HEADGATE_HOME", str(home))
