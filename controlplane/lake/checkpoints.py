"""Checkpoints of Delta logs, made by a process that ends with it, since deltalake takes more memory
than this one."""

from __future__ import annotations

import subprocess
import sys
import tempfile

COMMAND = (sys.executable, "-P", "-m", "controlplane.lake.checkpoint_child")
TIMEOUT_S = 120.0


def make_checkpoint(log: bytes) -> bytes:
    """The Parquet file of a checkpoint with the contents of a log's only file: equal bytes for an
    equal file.

    OSError if it cannot be made.
    """
    with tempfile.TemporaryDirectory(prefix="headgate-") as folder:
        try:
            done = subprocess.run(
                [*COMMAND, folder],
                input=log,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as e:
            raise OSError(f"a checkpoint takes longer than {TIMEOUT_S:.0f} s") from e
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise OSError(f"cannot make a checkpoint: {reason or done.returncode}")
    return done.stdout
