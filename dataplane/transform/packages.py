"""Python packages that transforms require: a folder for each set of them, installed once, kept in
the home.

A folder appears whole, by a rename, and vanishes so: the control plane deletes those that no
blueprint needs, unless they are held. Beside it, `NAME.sets` has a line for each set that it was
used for, and is as old as its last use. Packages that the driver comes with are not installed
again, and may not be required in another version: two of them cannot be in one process.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dataplane.spark.wheels import installer
from dataplane.task_failures import TaskFailure

INSTALL_S = 300.0
_OWN = tuple(sys.path)  # where the driver's own packages lie, before anything is added to it
SHOWN_LINES = 6
_WRONG = (
    "No matching distribution",
    "Could not find a version",
    "No solution found",
    "not found in the package registry",
)
# Pip goes on, and ends with that there is no such package
_DOWN = ("connection broken", "Could not fetch URL")


def folder_of(requirements: Sequence[str], home: Path) -> Path:
    """The folder that holds these packages and nothing else. Raises TaskFailure, with the
    installer's own words."""
    missing = [text for text in sorted(requirements) if not _is_there(text)]
    folder = home / "packages" / _name(missing)
    if not folder.is_dir():
        with _locked(folder, fcntl.LOCK_EX):
            if not folder.is_dir():
                _install(missing, folder)
    return folder


@contextmanager
def held(requirements: Sequence[str], home: Path) -> Iterator[Path]:
    """The folder that holds these packages and nothing else; meanwhile it stays. Raises TaskFailure
    as `folder_of`."""
    while True:
        folder = folder_of(requirements, home)
        with _locked(folder, fcntl.LOCK_SH):
            if folder.is_dir():  # not deleted since
                _note(folder, requirements)
                yield folder
                return


def _note(folder: Path, requirements: Sequence[str]) -> None:
    path, line = folder.with_suffix(".sets"), " ".join(sorted(requirements))
    if not path.exists() or line not in path.read_text(encoding="utf-8").splitlines():
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    os.utime(path)


def home() -> Path:
    """Where packages are kept: the home of the control plane that started this process, else a
    temporary folder."""
    return Path(
        os.environ.get("HEADGATE_HOME") or Path(tempfile.gettempdir()) / f"headgate-{os.getuid()}"
    )


def _is_there(requirement: str) -> bool:
    """Does the driver come with it? In another version it would be in the way."""
    name, _, version = requirement.partition("==")
    own = next(iter(importlib.metadata.distributions(name=name, path=list(_OWN))), None)
    if own is not None and own.version != version:
        message = (
            f"{requirement} is required, and the driver itself comes with {name}=={own.version}: "
            "require that version"
        )
        message += ", or leave it out of `requirements:`"
        raise TaskFailure("REQUIREMENT_CONFLICT", message)
    return own is not None


def _name(requirements: Sequence[str]) -> str:
    """The name of the folder: packages may differ by Python and by machine."""
    platform = f"{sys.implementation.cache_tag} {sysconfig.get_platform()}"
    return hashlib.sha256("\n".join([platform, *requirements]).encode()).hexdigest()[:32]


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    """One process installs at a time; others wait, and find it done. Who uses it shares the
    lock."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, how)
        yield


def _install(requirements: Sequence[str], folder: Path) -> None:
    staging = folder.with_suffix(".new")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    if requirements:
        try:
            _run(
                [
                    *_installer(),
                    "--no-deps",
                    "--only-binary",
                    ":all:",
                    "--target",
                    str(staging),
                    *requirements,
                ]
            )
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
    staging.rename(folder)


def _installer() -> list[str]:
    command = installer()
    if command is None:
        message = (
            "packages are required, and the driver has neither pip nor uv to install them with"
        )
        raise TaskFailure("REQUIREMENTS_NOT_INSTALLED", message, "infrastructure")
    return command


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        message = f"packages were not installed within {INSTALL_S:.0f} s"
        raise TaskFailure("REQUIREMENTS_NOT_INSTALLED", message, "infrastructure") from None
    if done.returncode:
        words = "\n".join((done.stderr or done.stdout).strip().splitlines()[-SHOWN_LINES:])
        is_users = any(text in words for text in _WRONG) and not any(
            text in words for text in _DOWN
        )
        message = f"packages could not be installed: {words or f'exit code {done.returncode}'}"
        raise TaskFailure(
            "REQUIREMENTS_NOT_INSTALLED", message, "user" if is_users else "infrastructure"
        )
