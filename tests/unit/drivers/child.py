"""Stands in for `python -m dataplane`: does what the secret of/orders says, once it has told its
process id."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

from dataplane import secrets
from dataplane.runtime import parent_watch, process_group

RELATIVES = {
    "family": lambda: subprocess.Popen(["sleep", "1000"]),
    # ends, as a JVM does, when its pipe from us does
    "jvm": lambda: subprocess.Popen(["cat"], stdin=subprocess.PIPE),
}
REFUSED = """\
Exception in thread "main" org.apache.spark.SparkException: Executor memory must be a positive number
\tat org.apache.spark.deploy.SparkSubmitArguments.error(SparkSubmitArguments.scala:670)
Traceback (most recent call last):
pyspark.errors.exceptions.base.PySparkRuntimeError: [JAVA_GATEWAY_EXITED] Java gateway process exited."""


def main() -> None:
    parent_watch.hold()
    process_group.end_with_leader()
    secrets.take()
    orders = secrets.resolved("secret://of/orders")
    if orders == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    relatives = [RELATIVES[orders]()] if orders in RELATIVES else []
    token = secrets.token()
    environment = {k: v for k, v in os.environ.items() if "HEADGATE" in k or "secret" in v}
    seen = {
        "pids": [os.getpid(), *(r.pid for r in relatives)],
        "kind": sys.argv[1],
        "token": token,
        "environment": environment,
        "uid": [os.getuid(), os.getgid(), os.getgroups()],
    }
    with open(secrets.resolved("secret://of/report"), "w", encoding="utf-8") as report:
        report.write(json.dumps(seen) + "\n")
    match orders:
        case "end":
            return
        case "fail":
            sys.exit("a trace\nand the last line")
        case "memory":
            sys.exit("java.lang.OutOfMemoryError: Java heap space")
        case "jvm-refuses":
            sys.exit(REFUSED)
        case _:
            while True:
                signal.pause()


if __name__ == "__main__":
    main()
