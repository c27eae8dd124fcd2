"""One structured line per decision, on standard error: readable on a terminal, JSON otherwise.

Nothing else configures logging. `get` is for modules that a `run` imports: structlog is loaded at the first line.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structlog.typing import Processor


class Log:
    """A logger that imports structlog when something is logged: most runs log nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def info(self, event: str, **fields: Any) -> None:
        self._logger().info(event, **fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._logger().warning(event, **fields)

    def error(self, event: str, **fields: Any) -> None:
        self._logger().error(event, **fields)

    def exception(self, event: str, **fields: Any) -> None:
        """An error with the trace of the exception that is being handled."""
        self._logger().exception(event, **fields)

    def _logger(self) -> Any:
        import structlog

        if not structlog.is_configured():
            configure(level=logging.WARNING)
        return structlog.get_logger(part=self._name)


def get(name: str) -> Log:
    return Log(name)


def tame() -> None:
    """Keep lines of whoever has loaded structlog already away from standard output, and quiet."""
    if "structlog" in sys.modules and not sys.modules["structlog"].is_configured():
        configure(level=logging.WARNING)


def configure(*, level: int = logging.INFO) -> None:
    """Send everything, the lines of other libraries too, to standard error."""
    import structlog

    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s", force=True
    )
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
        return [structlog.dev.ConsoleRenderer()]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
