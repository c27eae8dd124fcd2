"""Secrets: resolved here, in the data plane, and nowhere else; and kept out of every error and log.

`secret://name/key` is the environment variable HEADGATE_SECRET_NAME_KEY, or the file $HEADGATE_SECRETS/name/key. Does
not belong here: what secrets open.
"""

from __future__ import annotations

import io
import logging
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO
from urllib.parse import quote, quote_plus

from dataplane.contract import Json, TaskError, TaskResult
from dataplane.failure import TaskFailure

_REFERENCE = re.compile(r"secret://([A-Za-z0-9][A-Za-z0-9_.-]*)/([A-Za-z0-9][A-Za-z0-9_.-]*)")
_IN_URL = re.compile(r"://[^/\s:@]*:([^/\s@]+)@|[?&;](?:password|pwd|sig|token|sslpassword)=([^&;\s]+)", re.IGNORECASE)
HIDDEN = "***"

_known: set[str] = set()  # every secret that this process has seen, and other spellings of it


def resolved(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """The text itself, or the value of the secret that it refers to. TaskFailure where there is none."""
    if not text.startswith("secret://"):
        return text
    found = _REFERENCE.fullmatch(text)
    value = _value(found[1], found[2], environ) if found else None
    if value is None:
        raise TaskFailure("secret-missing", f"{text} has no value here: set {_variable(text)}, or mount it as a file")
    remember(value)
    return value


def _value(name: str, key: str, environ: Mapping[str, str]) -> str | None:
    variable = re.sub(r"[^A-Z0-9]", "_", f"HEADGATE_SECRET_{name}_{key}".upper())
    if variable in environ:
        return environ[variable]
    folder = environ.get("HEADGATE_SECRETS")
    path = Path(folder) / name / key if folder else None
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n") if path else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as e:
        raise TaskFailure("secret-missing", f"secret://{name}/{key} cannot be read: {type(e).__name__}") from None


def _variable(reference: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", f"HEADGATE_SECRET_{reference.removeprefix('secret://')}".upper())


def remember(value: str) -> None:
    """Hide a value, what is secret within it if it is a URL, and their spellings in URLs."""
    parts = [part for found in _IN_URL.findall(value) for part in found if part]
    for part in filter(None, (value, *parts)):
        _known.update((part, quote(part, safe=""), quote_plus(part), repr(part)[1:-1]))


def hidden(text: str) -> str:
    """The text with every known secret in it taken out, longest first."""
    for value in sorted(_known, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text


def without_secrets(results: Iterable[TaskResult]) -> list[TaskResult]:
    """Results whose errors hold no secret."""
    return [{**r, "error": without_secrets_in(r["error"])} if "error" in r else r for r in results]


def without_secrets_in(error: TaskError) -> TaskError:
    told: Json = {name: hidden(value) if isinstance(value, str) else value for name, value in error.items()}
    return told  # type: ignore[no-any-return]  # the same keys


class Printing(io.TextIOWrapper):
    """What this process and users' code in it print, without secrets, line by line: who is killed has told all."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream.buffer, encoding=stream.encoding, errors="backslashreplace", line_buffering=True)

    def write(self, text: str, /) -> int:
        """A line that a full disk does not take is lost: it must fail no task."""
        with suppress(OSError, ValueError):
            super().write(hidden(text))
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            super().flush()


class Hiding(logging.Formatter):
    """Lines of a log, traces included, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return hidden(super().format(record))
