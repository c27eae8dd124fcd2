"""A pod from beginning to end, configured by its environment."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from dataplane.runtime.query_pod.pod_callers import Patience, QueryPod
from dataplane.runtime.query_pod.query_process import ProcessKind

STAYS_S = 60.0  # longer than the pod itself: a process that is to answer does not end first


def run(environ: Mapping[str, str] = os.environ) -> int:
    """Until it is idle, or gets the order to end; its exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    idle_s = float(environ["HEADGATE_IDLE_S"])
    memory_bytes, disk_bytes = (
        int(environ[f"HEADGATE_{name}_BYTES"]) for name in ("MEMORY", "DISK")
    )
    kind = ProcessKind(environ["HEADGATE_LAKE"], memory_bytes, disk_bytes, idle_s + STAYS_S)
    token = Path(environ["HEADGATE_TOKEN_FILE"]).read_text().strip()
    with (
        socket.create_server(("", int(environ["HEADGATE_PORT"]))) as listening,
        suppress(SystemExit),
    ):
        pod = QueryPod(listening, token, kind, Patience(idle_s))
        try:
            pod.serve()
        finally:
            pod.close()
    return 0
