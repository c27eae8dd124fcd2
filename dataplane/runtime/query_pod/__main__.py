"""`python -m dataplane.runtime.query_pod`: answers queries by Spark, for callers who know the token.

Does not belong here: anything but starting and ending.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from dataplane.runtime.query_pod.child import Kind
from dataplane.runtime.query_pod.pod import Patience, QueryPod

STAYS_S = 60.0  # longer than the pod itself: a process that is to answer does not end first


def main(environ: Mapping[str, str] = os.environ) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    idle_s = float(environ["HEADGATE_IDLE_S"])
    kind = Kind(
        environ["HEADGATE_LAKE"],
        int(environ["HEADGATE_MEMORY_BYTES"]),
        int(environ["HEADGATE_DISK_BYTES"]),
        idle_s + STAYS_S,
    )
    token = Path(environ["HEADGATE_TOKEN_FILE"]).read_bytes().strip()
    with socket.create_server(("", int(environ["HEADGATE_PORT"]))) as listening:
        pod = QueryPod(listening, token, kind, Patience(idle_s))
        try:
            pod.serve()
        finally:
            pod.close()


if __name__ == "__main__":
    try:
        main()
    except SystemExit:
        os._exit(0)
    os._exit(0)  # not after threads of callers
