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
    server.wait(order["ttl_s"])
    server.close()
    end(order["scratch"], 0)


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
