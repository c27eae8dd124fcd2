"""`python -m dataplane worker | driver`: a process of the data plane; environment variables name
the service to pull work from.

`python -m dataplane query` answers queries by Spark for a control plane that calls, and `session`
is a Spark Connect server that it orders. `python -m dataplane prepare` makes what lets drivers
start sooner. `python -m dataplane test` answers questions about tests of blueprints, line by line.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import TextIO

from dataplane.runtime import parent_watch, process_group
from dataplane.runtime.client import Client
from dataplane.secrets import SHORTEST, Printing, log_lines, start_clean, take


def main(arguments: list[str]) -> int:
    if arguments not in (["worker"], ["driver"], ["query"], ["session"], ["prepare"], ["test"]):
        sys.stderr.write(
            "usage: python -m dataplane worker | driver | query | session | prepare | test\n"
        )
        return 64
    start_clean()
    answers = _answers() if arguments == ["test"] else None
    parent_watch.hold()
    if arguments in (["driver"], ["test"]):
        process_group.end_with_leader()
    too_short = take()
    sys.stdout, sys.stderr = Printing(sys.stdout), Printing(sys.stderr)
    log_lines()
    if too_short:
        logging.warning(
            "secrets of fewer than %d characters are not hidden: %s", SHORTEST, ", ".join(too_short)
        )
    if arguments == ["prepare"]:
        return _prepare()
    if answers is not None:
        from dataplane.runtime import example_process

        return example_process.serve(parent_watch.questions(sys.stdin), answers)
    if arguments == ["query"]:
        from dataplane.runtime.query_pod import pod_run

        return pod_run.run()
    if arguments == ["session"]:
        from dataplane.runtime.spark_connect import connect_pod

        return connect_pod.run()
    client = Client.from_environment()
    if arguments == ["driver"]:
        from dataplane.runtime import driver

        return driver.run(client)
    from dataplane.runtime import worker

    # unsaid, a container's first process stays
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    worker.run(client)
    return 0


def _answers() -> TextIO:
    """The standard output, for answers alone: what users' code prints goes to the standard
    error."""
    sys.stdout.flush()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _prepare() -> int:
    from dataplane.spark.java import NoSpark
    from dataplane.spark.warmup import prepare

    os.nice(19)  # a driver may be at work meanwhile
    try:
        archive = prepare()
    except NoSpark as e:
        sys.exit(str(e))
    if archive:
        sys.stdout.write(f"{archive}\n")
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    logging.shutdown()
    sys.stdout.flush()
    os._exit(status)  # not after threads that wait in a long poll
