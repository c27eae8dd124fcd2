"""What stands for a driver or worker where they only start and end: it does what ORDERS says."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path


def main() -> None:
    # In a pod; a local child gets its token by a descriptor
    place = os.environ.get("HEADGATE_TOKEN_FILE")
    token = Path(place).read_text() if place else ""
    seen = [sys.argv[1], token, os.environ["HEADGATE_URL"], os.environ.get("POD_NAME", "")]
    Path(os.environ["HEADGATE_HOME"], "seen").write_text("\n".join(seen))
    sys.stdout.write(f"I am a {sys.argv[1]}\n")
    sys.stdout.flush()
    match os.environ.get("ORDERS", "stay"):
        case "end":
            return
        case "fail":
            sys.exit("a trace\nand the last line")
        case "memory":
            sys.exit("java.lang.OutOfMemoryError: Java heap space")
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
