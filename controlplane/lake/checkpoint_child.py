"""The process that makes a checkpoint: `-m controlplane.lake.checkpoint_child FOLDER`, which is
empty.

The only file of a log comes in, the Parquet file of its checkpoint goes out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from deltalake import DeltaTable

from dataplane.contract.delta_log import LOG, checkpoint_name, commit_name


def main() -> None:
    log = Path(sys.argv[1]) / LOG
    log.mkdir()
    (log / commit_name(0)).write_bytes(sys.stdin.buffer.read())
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # what a library prints must not look like an answer
        DeltaTable(sys.argv[1]).create_checkpoint()
        out.write((log / checkpoint_name(0)).read_bytes())


if __name__ == "__main__":
    main()
