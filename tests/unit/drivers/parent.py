"""A parent with a pool of its own, to be killed."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from controlplane.drivers.local_pool import LocalPool


def main() -> None:
    home, child = sys.argv[1:]
    pool = LocalPool(
        "http://127.0.0.1:1", Path(home), lambda _: "token", command=(sys.executable, child)
    )
    pool.scale("worker", 1)
    pool.scale("driver", 1)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
