"""One structured line per decision, on standard error: readable on a terminal, JSON otherwise.

Logging never raises: a line that cannot be rendered or written is lost, and their number is logged
once one arrives.

Nothing else configures logging. Before `configure`, warnings are written, and no less.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import traceback
from datetime import UTC, datetime
from typing import Any, ClassVar, TextIO

from controlplane.core.redaction import redacted

EVENT_WIDTH = 30  # of the column on a terminal


class Log:
    """The lines of one part."""

    least: ClassVar[int] = logging.WARNING  # level of lines that are written

    def __init__(self, name: str) -> None:
        self._name = name

    def info(self, event: str, **fields: Any) -> None:
        self._say("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._say("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._say("error", event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """An error with the trace of the exception that is being handled."""
        self._say("error", event, fields, traceback.format_exc())

    def _say(self, level: str, event: str, fields: dict[str, Any], trace: str = "") -> None:
        if logging.getLevelNamesMapping()[level.upper()] < Log.least:
            return
        try:
            self._write(level, event, fields, trace)
        except Exception as e:  # noqa: BLE001  # whatever it is, the work that is logged goes on
            self._say_less(level, event, e)

    def _say_less(self, level: str, event: str, error: Exception) -> None:
        """A field of it cannot be rendered."""
        try:
            self._write(level, event, {"unshown": type(error).__name__}, "")
        except Exception:  # noqa: BLE001
            """Then it is lost."""

    def _write(self, level: str, event: str, fields: dict[str, Any], trace: str) -> None:
        line = {"part": self._name, **fields, "event": event, "level": level}
        at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        if sys.stderr.isatty():
            words = [f"{name}={field}" for name, field in {"part": self._name, **fields}.items()]
            head = f"{at} [{level:7}] {event:{EVENT_WIDTH}}"
            text = "\n".join(filter(None, (" ".join((head, *words)), trace.rstrip())))
        else:
            shown = {"exception": trace.rstrip()} if trace else {}
            text = json.dumps({**line, "timestamp": at, **shown}, default=repr)
        sys.stderr.write(redacted(text) + "\n")
        sys.stderr.flush()


class Enduring(io.TextIOBase):
    """A stream for people that takes every line and raises nothing: its disk may be full, its
    reader may have left."""

    def __init__(self, inner: TextIO) -> None:
        self._inner, self._lost, self._lock = inner, 0, threading.RLock()

    def write(self, text: str, /) -> int:
        with self._lock:
            if self._lost and self._put(f"{self._lost} lines of this log could not be written\n"):
                self._lost = 0
            if self._lost or not self._put(text):
                self._lost += max(1, text.count("\n"))
        return len(text)

    def _put(self, text: str) -> bool:
        try:
            self._inner.write(text)
            self._inner.flush()
        except (
            OSError,
            ValueError,
        ):  # ValueError: it is closed, or its encoding has no such character
            return False
        return True

    def flush(self) -> None:
        """Every line is written at once."""

    def isatty(self) -> bool:
        try:
            return self._inner.isatty()
        except (OSError, ValueError):
            return False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._inner.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a plain attribute there
        return self._inner.encoding


def endure() -> None:
    """From now on, nothing that this process says on its standard streams can end it."""
    sys.stdout = Enduring(sys.stdout)
    sys.stderr = Enduring(sys.stderr)


def get(name: str) -> Log:
    return Log(name)


def configure() -> None:
    """Write lines of every level, and send those of other libraries to standard error."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(Redacting("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[lines], force=True)
    Log.least = logging.INFO


class Redacting(logging.Formatter):
    """Lines of other libraries, redacted: drivers of databases log addresses."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))
