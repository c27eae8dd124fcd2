"""Secrets: resolved here, in the data plane, and nowhere else; and kept out of every error and log.

`secret://name/key` is the variable HEADGATE_SECRET_NAME_KEY, or the file
$HEADGATE_SECRETS/name/key. A process takes these variables out of its environment at its start, so
that nothing that it starts, and no code of users that looks at the environment, has them. Values
are hidden in words for people (errors, logs, examples of a check); names and versions that the
planes reckon with stay exact.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import sys
import threading
from base64 import b64encode
from collections import ChainMap, deque
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO, cast
from urllib.parse import quote, quote_plus

from dataplane import error_words
from dataplane.contract.jobs import ConnectorJob
from dataplane.contract.results import TaskError, TaskResult
from dataplane.contract.schemas import Json
from dataplane.contract.secret_pipe import PIPE_VARIABLE, secret_pipe
from dataplane.task_failures import TaskFailure

_REFERENCE = re.compile(r"secret://([A-Za-z0-9][A-Za-z0-9_.-]*)/([A-Za-z0-9][A-Za-z0-9_.-]*)")
_IN_URL = re.compile(
    r"://[^/\s:@]*:([^/\s@]+)@|[?&;](?:password|pwd|sig|token|sslpassword)=([^&;\s]+)",
    re.IGNORECASE,
)
# Variables of stores' clients
_OF_OTHERS = re.compile(r".*(?:PASSWORD|TOKEN|SECRET|ACCESS_KEY|ACCOUNT_KEY|SAS)")
HIDDEN = "***"
SHORTEST = 4  # characters: shorter values would be found in every other word
# Of texts that may be secret: encodings, lines of a longer value, variables of others
SHORTEST_PART = 8
# Of values that other servers lend: a shorter one would hide words in the errors of others
SHORTEST_LENT = 16
LONGEST_LENT = 1 << 14
MOST_LENT = 64
LARGEST_FILE = 1 << 20
VARIABLE = "HEADGATE_SECRET_"
FOLDER = "HEADGATE_SECRETS"
TOKEN = "HEADGATE_TOKEN"  # one of them: the driver's own

_received: dict[str, str] = {}  # secrets taken out of the environment, or read from the descriptor
_hidden: set[str] = set()  # every secret that is hidden, and other spellings of it
_pattern: re.Pattern[str] | None = None  # of all that is known
_lent: deque[tuple[str, ...]] = deque(maxlen=MOST_LENT)  # spellings of each, longest first
_changing = threading.RLock()  # a handler of a signal may log


# --- taking -------------------------------------------------------------------------------------


def take(environ: MutableMapping[str, str] = os.environ) -> list[str]:
    """At the start of a process, before code of users runs: secrets leave the environment, and all
    are hidden from now on, those in mounted files too. The names of those that are too short to be
    hidden."""
    _received.update(_secret_pipe(environ))
    for name in [name for name in environ if name.startswith(VARIABLE)]:
        _received[name] = environ.pop(name)
    for name, value in environ.items():
        if len(value) >= SHORTEST_PART and _OF_OTHERS.fullmatch(name):
            remember(value)
    all_given = {**_received, **dict(_mounted(environ.get(FOLDER)))}
    for value in all_given.values():
        remember(value)
    return sorted(name for name, value in all_given.items() if 0 < len(value) < SHORTEST)


def start_clean(environ: MutableMapping[str, str] = os.environ) -> None:
    """Start this process again if its environment held secrets: the kernel shows the environment
    that a process was started with to every process of the same user (/proc/PID/environ), with any
    it does with it later."""
    secrets = {name: environ.pop(name) for name in [*environ] if name.startswith(VARIABLE)}
    if not secrets:
        return
    with secret_pipe({**_secret_pipe(environ), **secrets}) as descriptor:
        os.set_inheritable(descriptor, True)
        environ[PIPE_VARIABLE] = str(descriptor)
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], dict(environ))


def _secret_pipe(environ: MutableMapping[str, str]) -> dict[str, str]:
    descriptor = environ.pop(PIPE_VARIABLE, "")
    if not descriptor:
        return {}
    with os.fdopen(int(descriptor), "rb") as file:
        return {str(name): str(value) for name, value in json.loads(file.read()).items()}


def _mounted(folder: str | None) -> Iterator[tuple[str, str]]:
    """Every secret that is mounted as a file, by its reference."""
    for path in Path(folder).glob("*/*") if folder else ():
        with suppress(OSError, UnicodeDecodeError):
            if path.is_file() and path.stat().st_size <= LARGEST_FILE:
                yield f"secret://{path.parent.name}/{path.name}", _text_of(path)


def token() -> str | None:
    """The driver's own token, where it came by the environment or a descriptor and is in no
    file."""
    return _received.get(TOKEN)


# --- resolving ----------------------------------------------------------------------------------


def resolved(text: str, environ: Mapping[str, str] | None = None) -> str:
    """The text itself, or the value of the secret that it refers to. TaskFailure where there is
    none."""
    if not text.startswith("secret://"):
        return text
    reference = _REFERENCE.fullmatch(text)
    value = (
        _value(reference[1], reference[2], _all() if environ is None else environ)
        if reference
        else None
    )
    if value is None:
        raise TaskFailure(
            "secret-missing",
            f"{text} has no value here: set {_variable_of(text)}, or mount it as a file",
        )
    remember(value)
    return value


def resolved_settings(job: ConnectorJob, prefix: str) -> dict[str, str]:
    """Settings of a source whose names begin with `prefix`, by the rest of the name. TaskFailure
    for a secret without a value."""
    return {
        name.removeprefix(prefix): resolved(setting)
        for name, setting in (job.get("settings") or {}).items()
        if name.startswith(prefix)
    }


def named_by(job: Json) -> dict[str, str]:
    """Secrets that a claim's job refers to, and no others, as variables: for a process that does
    this job alone."""
    values: dict[str, str] = {}
    for name, key in _REFERENCE.findall(json.dumps(job)):
        with suppress(TaskFailure):  # that process reports it
            if (value := _value(name, key, _all())) is not None:
                values[_variable_of(f"{name}/{key}")] = value
    return values


def _all() -> Mapping[str, str]:
    return ChainMap(_received, os.environ)


def _variable_of(reference: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", f"{VARIABLE}{reference.removeprefix('secret://')}".upper())


def _value(name: str, key: str, environ: Mapping[str, str]) -> str | None:
    variable = _variable_of(f"{name}/{key}")
    if variable in environ:
        return environ[variable]
    folder = environ.get(FOLDER)
    try:
        return _text_of(Path(folder) / name / key) if folder else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as e:
        raise TaskFailure(
            "secret-missing", f"secret://{name}/{key} cannot be read: {type(e).__name__}"
        ) from None


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8").rstrip("\r\n")


# --- hiding -------------------------------------------------------------------------------------


def remember(value: str) -> None:
    """Hide a value, the secret parts of a URL in it, its lines, and their spellings in URLs, JSON,
    base64."""
    global _pattern
    with _changing:
        for part in _parts(value):
            if len(part) >= SHORTEST and part not in _hidden:
                _hidden.update(_spellings(part))
                _pattern = None


def remember_lent(key: str) -> None:
    """Hide a token or key that another server lends for a time, and that a new one will replace:
    the last MOST_LENT are hidden. One below SHORTEST_LENT is shown."""
    parts = [part for part in _parts(key) if len(part) >= SHORTEST_LENT]
    spellings = {spelling for part in parts for spelling in _spellings(part)}
    longest_first = tuple(sorted(spellings, key=lambda text: (-len(text), text)))
    with _changing:
        if parts and longest_first not in _lent:
            _lent.append(longest_first)


def _parts(secret: str) -> set[str]:
    """A secret, the secret parts of a URL in it, and its lines."""
    in_url = [part for groups in _IN_URL.findall(secret) for part in groups]
    lines = [line for line in secret.splitlines() if len(line) >= SHORTEST_PART]
    return {secret, *in_url, *lines}


def _spellings(part: str) -> Iterator[str]:
    yield from (part, quote(part, safe=""), quote(part), quote_plus(part), repr(part)[1:-1])
    yield from (json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1])
    if len(part) < SHORTEST_PART:
        return
    code = part.encode(errors="surrogatepass")
    for before in range(3):  # it may stand behind others, as a password behind `user:`
        encoded = b64encode(bytes(before) + code).decode().rstrip("=")
        inner = encoded[(0, 2, 3)[before] : len(encoded) - ((before + len(code)) % 3 != 0)]
        yield from (inner, inner.translate(_URL_SAFE))


_URL_SAFE = str.maketrans("+/", "-_")


def hidden(text: str) -> str:
    """The text with every known secret in it taken out, longest first."""
    global _pattern
    with _changing:
        lent = [spelling for spellings in _lent for spelling in spellings]
    for spelling in lent:
        text = text.replace(spelling, HIDDEN)
    if not _hidden:
        return text
    with _changing:
        if _pattern is None:
            longest_first = sorted(_hidden, key=len, reverse=True)
            _pattern = re.compile("|".join(map(re.escape, longest_first)))
        pattern = _pattern
    return pattern.sub(HIDDEN, text)


def without_secrets(results: Iterable[TaskResult]) -> list[TaskResult]:
    """Results as they may leave: errors, also those within an answer, and examples of rows hold no
    secret, and are bounded. Secrets are hidden first: of one that was cut, half would be left."""
    return [cast("TaskResult", _visible({**result})) for result in results]


def _visible(record: Mapping[str, Json]) -> dict[str, Json]:
    visible = dict(record)
    if isinstance(error := visible.get("error"), dict):
        visible["error"] = without_secrets_in(cast("TaskError", error))
    if isinstance(examples := visible.get("examples"), list):
        visible["examples"] = [error_words.visible(hidden(str(example))) for example in examples]
    if isinstance(answer := visible.get("result"), dict):
        visible["result"] = _visible(answer)
    return visible


def without_secrets_in(error: TaskError) -> TaskError:
    visible = {name: _hidden_in(value) for name, value in error.items()}
    visible |= {
        "message": error_words.message(visible["message"]),
        "detail": error_words.detail(visible["detail"]),
    }
    return cast("TaskError", visible)


def _hidden_in(value: Json) -> Json:
    return hidden(value) if isinstance(value, str) else value


class Printing(io.TextIOWrapper):
    """The output of this process and of users' code in it, without secrets.

    It goes on line by line, so a process that is killed has written every line.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(
            stream.buffer, encoding=stream.encoding, errors="backslashreplace", line_buffering=True
        )

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


def log_lines() -> None:
    """Write the log of this process to its standard error, without secrets."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(Hiding("time=%(asctime)s level=%(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[lines])
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    logging.getLogger("py4j").setLevel(logging.ERROR)
