"""What is said where a whole cluster cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cluster.whole import TOOLS

ROOT = Path(__file__).parents[3]


def test_a_machine_that_lacks_something_is_told_all_of_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.cluster.whole", "true"]
    environment = os.environ | {"PATH": str(tmp_path)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("headgate: a whole cluster needs ")
    assert all(f"{tool} (Debian: {package})" in done.stderr for tool, package in TOOLS.items())
