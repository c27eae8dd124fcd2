"""Publishing Delta tables through a child process that comes when needed and goes when idle."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable

from controlplane.core.errors import HeadgateError
from controlplane.core.model.projections import TableContent
from controlplane.core.model.tasks import Fragment
from dataplane.contract.schemas import Json

READY, GO = b'"ready"\n', b'"go"\n'  # the child is about to commit; it may
COMMAND = (sys.executable, "-P", "-m", "controlplane.lake.publish_child")


class CannotPublish(HeadgateError):
    """A schema that a Delta table cannot hold, or files whose names it would escape."""

    code = "cannot-publish"


class DeltaPublisher:
    """Publish one table at a time, for all callers. A child that dies is an OSError for its own
    request only. `may_commit` is called between reading a table and committing to the version that
    was read, and raises where another process may publish by now: a process after a long pause
    never overwrites a newer generation."""

    def __init__(
        self,
        lake_uri: str,
        *,
        idle_s: float = 5.0,
        timeout_s: float = 600.0,
        may_commit: Callable[[], None] = lambda: None,
    ) -> None:
        self._lake_uri, self._may_commit = lake_uri, may_commit
        self._idle_s = idle_s
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._idle: threading.Timer | None = None

    def publish(
        self, table: TableContent, on_notice: Callable[[str], None] = lambda _: None
    ) -> int:
        with self._lock:
            self._forget_idle()
            try:
                answer = self._ask(json.dumps(_request(self._lake_uri, table)).encode() + b"\n")
            finally:
                self._rest()
        match answer:
            case {"version": int(version), "notice": notice}:
                if notice:
                    on_notice(notice)
                return version
            case {"refused": str(message)}:
                raise CannotPublish(f"{table.dataset}: {message}")
            case _:
                raise OSError(f"{table.dataset}: {answer['fault']}")

    def close(self) -> None:
        with self._lock:
            self._forget_idle()
            self._end()

    def _ask(self, request: bytes) -> Json:
        child = self._live_child()
        watchdog = threading.Timer(self._timeout_s, child.kill)
        watchdog.start()
        try:
            line = _answer(child, request)
            while line == READY:
                self._may_commit()
                line = _answer(child, GO)
        except BaseException:
            self._end()  # which says no
            raise
        finally:
            watchdog.cancel()
        if line.endswith(b"\n"):
            return json.loads(line)
        self._end()
        raise OSError(f"the publishing process ended with {child.returncode} before it answered")

    def _live_child(self) -> subprocess.Popen[bytes]:
        if self._child and self._child.poll() is not None:
            self._end()
        if self._child is None:
            self._child = subprocess.Popen(  # a session of its own: Ctrl-C is for us to handle
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        with child:  # closes the pipes, which ends the child, and waits for it
            pass

    def _rest(self) -> None:
        self._idle = threading.Timer(self._idle_s, self._end_if_idle)
        self._idle.daemon = True
        self._idle.start()

    def _forget_idle(self) -> None:
        if self._idle:
            self._idle.cancel()
            self._idle = None

    def _end_if_idle(self) -> None:
        with self._lock:
            if self._idle is threading.current_thread():
                self._end()


def _answer(child: subprocess.Popen[bytes], line: bytes) -> bytes:
    """The child's answer to a line; nothing if it has ended."""
    assert child.stdin
    assert child.stdout
    try:
        child.stdin.write(line)
        child.stdin.flush()
        return child.stdout.readline()
    except BrokenPipeError:
        return b""


def _request(lake_uri: str, table: TableContent) -> Json:
    return {
        "lake": lake_uri,
        "table": table.path,
        "schema": table.schema,
        "fragments": [_fragment(f) for f in table.fragments],
        "generation": table.generation,
        "dataset": table.dataset,
        "is_layout": table.is_layout,
        "is_passing": table.is_passing,
        "borrows": table.borrows,
    }


def _fragment(fragment: Fragment) -> Json:
    return {"id": fragment.id.hex()[:32], "files": fragment.files}
