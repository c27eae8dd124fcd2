"""One structured line per decision, on standard error: readable on a terminal, JSON otherwise.

Logging never raises: a line that cannot be rendered or written is lost, and their number is logged
once one arrives.

Nothing else configures logging. `get` is for modules that a `run` imports: structlog is loaded at
the first line.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
from typing import TYPE_CHECKING, Any, TextIO

from controlplane.core.redaction import redacted

if TYPE_CHECKING:
    from structlog.typing import Processor


class Log:
    """A logger that imports structlog when something is logged: most runs log nothing."""

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
        self._say("exception", event, fields)

    def _say(self, how: str, event: str, fields: dict[str, Any]) -> None:
        try:
            getattr(self._logger(), how)(event, **fields)
        except Exception as e:  # noqa: BLE001  # the work that is logged goes on after any failure
            self._say_less(how, event, e)

    def _say_less(self, how: str, event: str, error: Exception) -> None:
        """A field of it cannot be rendered."""
        try:
            getattr(self._logger(), how)(event, unshown=type(error).__name__)
        except Exception:  # noqa: BLE001
            """Then it is lost."""

    def _logger(self) -> Any:
        import structlog

        if not structlog.is_configured():
            configure(level=logging.WARNING)
        return structlog.get_logger(part=self._name)


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


def tame() -> None:
    """Keep lines of callers that have loaded structlog already away from standard output, and
    quiet."""
    if "structlog" in sys.modules and not sys.modules["structlog"].is_configured():
        configure(level=logging.WARNING)


def configure(*, level: int = logging.INFO) -> None:
    """Send everything, the lines of other libraries too, to standard error."""
    import structlog

    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(Redacting("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[lines], force=True)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *_rendering(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _rendering() -> list[Processor]:
    import structlog

    if sys.stderr.isatty():
        return [structlog.dev.ConsoleRenderer(), _redact]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(), _redact]


def _redact(_logger: object, _method: str, line: Any) -> str:
    return redacted(str(line))


class Redacting(logging.Formatter):
    """Lines of other libraries, redacted: drivers of databases log addresses."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))
