"""`python -m dataplane.runtime.spark_connect`: serves until its time is over or its standard input
ends.

One line comes in, a `ServerOrder`; one line goes out, that it serves or why not. Spark's own words
go to a file.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from typing import BinaryIO

from dataplane.contract.spark_sessions import ServerAnswer, ServerOrder
from dataplane.runtime.process_bounds import bound, end

# Where Spark reads it from; a setting would be shown to its users
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
SILENT_S = 20.0  # that a JVM may take to answer its last calls


def main() -> None:
    source, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    order: ServerOrder = json.loads(source.readline())
    bound(order["scratch"], order["disk_bytes"])
    threading.Thread(
        target=_read, args=(source, order["scratch"]), name="input", daemon=True
    ).start()
    os.environ[TOKEN] = order["token"]

    from dataplane.runtime.spark_connect.connect_server import ConnectServer

    try:
        server = ConnectServer(order)
    except Exception as e:  # noqa: BLE001  # the caller gets the error
        traceback.print_exc()
        _answer(answers, {"port": None, "error": f"{type(e).__name__}: {e}".partition("\n")[0]})
        end(order["scratch"], 1)
    _answer(answers, {"port": server.port, "error": ""})
    _end_after(order["ttl_s"] + SILENT_S, order["scratch"])
    server.wait(order["ttl_s"])
    _end_after(SILENT_S, order["scratch"])
    try:
        server.close()
    except Exception:  # noqa: BLE001  # a client may wait longer; the server ends all the same
        traceback.print_exc()
    end(order["scratch"], 0)


def _end_after(seconds: float, scratch: str) -> None:
    """End also where the JVM says nothing any more: calls of it wait without limit."""
    timer = threading.Timer(seconds, end, (scratch, 1))
    timer.daemon = True
    timer.start()


def _answer(answers: BinaryIO, value: ServerAnswer) -> None:
    answers.write(json.dumps(value).encode() + b"\n")
    answers.flush()


def _read(source: BinaryIO, scratch: str) -> None:
    """The end of the input is the end of the caller that started this server."""
    for _ in source:
        pass
    end(scratch, 0)


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # noqa: BLE001  # a thread still reads: an orderly end would wait for it
        traceback.print_exc()
    os._exit(1)
