"""The service as `headgate serve` runs it, with a store that counts: python -m
benchmarks.planning.serving HOME

Settings come from the environment. Says its address, then answers each line on standard input with
a line of counts; ends with its input. Does not belong here: who asks (remote).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.planning.memory import peak_mb
from benchmarks.planning.ours import Counted
from controlplane.bootstrap import Server
from controlplane.garbage import collect_rarely
from controlplane.settings import read


def main() -> None:
    collect_rarely()
    server = Server(read(Path(sys.argv[1])), "serve")
    store = Counted(server.store)
    vars(server)["store"] = store  # in the place of the one that it has opened
    with server:
        _say(url=server.url, token=server.token)
        for _ in sys.stdin:
            _say(statements=store.statements, nodes_read=store.nodes_read, peak_mb=peak_mb())


def _say(**values: object) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
