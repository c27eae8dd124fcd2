"""Errors of Spark and of users' code as records: condition, SQL state and message first, at the
user's own line."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from dataplane.contract.results import OUT_OF_MEMORY, TaskError
from dataplane.spark.jvm_exit import NO_MEMORY, has_ended, how_ended
from dataplane.spark.sql_positions import Edit, offset_of, original_offset, place_of
from dataplane.task_failures import (
    DAMAGED,
    DAMAGED_MADE_AGAIN,
    GONE,
    MADE_AGAIN,
    TaskFailure,
    of_worker,
)

Place: TypeAlias = tuple[str | None, int, int | None]  # file, line, column

# Words around the error that matters: something failed, while a file was read, a row written, a
# function called.
_WRAPPERS = ("FAILED_READ_FILE.NO_HINT", "TASK_WRITE_FAILED", "FAILED_EXECUTE_UDF", "_LEGACY_ERROR")
_NOT_THERE = ("PATH_NOT_FOUND", "FAILED_READ_FILE.FILE_NOT_EXIST")
_UNREADABLE = ("FAILED_READ_FILE.", "CANNOT_READ_FILE_FOOTER")
_NO_MEMORY = (
    "java.lang.OutOfMemoryError",
    "org.apache.spark.memory.SparkOutOfMemoryError",
)
# What Spark says of the pod of an executor: its JVM, or all of it, ran out of memory
_EXECUTOR_NO_MEMORY = ("(JVM OOM)", "(SIGKILL, possible container OOM)")
_BROKEN_MACHINE = (
    *_NO_MEMORY,
    "java.lang.InterruptedException",
    "java.nio.file.FileSystemException",
    "java.nio.channels.ClosedByInterruptException",
)
_BROKEN_STORE = (  # classes of an object store's client, and of the network to it
    "com.google.cloud.hadoop.",
    "org.apache.hadoop.fs.azurebfs.",
    "org.apache.hadoop.fs.gs.",
    "org.apache.hadoop.fs.s3a.",
    "org.apache.hadoop.net.",
    "org.apache.http.",
    "software.amazon.",
    "java.net.",
    "java.nio.file.AccessDeniedException",
)
_BROKEN_WORDS = (
    "No space left on device",
    "Too many open files",
    "SparkContext was shut down",
    "stopped SparkContext",
    "Cannot allocate memory",
    "Read-only file system",
    "Python worker exited unexpectedly",
    *_EXECUTOR_NO_MEMORY,
)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]\s*")
_MALFORMED = (
    "malformed record (with `schema:`, `on_bad_record` can drop or quarantine such records)"
)
# Words of Spark's that name its own parts, and what stands in their place.
_REPLACED = (
    (re.compile(r"Job aborted due to stage failure: Task .*?\): (?:[\w.$]+: )?"), ""),
    (re.compile(r"requirement failed: "), ""),
    (re.compile(r"Malformed records are detected in record parsing: .*"), _MALFORMED),
    (re.compile(r"Encountered error while reading file .*"), "the file cannot be read"),
)
# The code that the query of a `cdc:` or `distinct:` puts before its message
_RAISED_CODE = re.compile(r"((?:cdc|distinct)-[a-z-]+): ")
_CLASS = re.compile(r"[a-z]\w*(?:\.\w+)+(?:Exception|Error)")  # of the JVM, alone
_PARSER_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")
_FRAME = re.compile(r'^\s*(?:File "([^"\n]+)", line |([^"\n]+):)(\d+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ErrorSource:
    """The text of a user, and the mapping of places in the executed text back to it.

    `files` gives the user's name of a code file for the name it was compiled under, `views` the
    input's name for that of its view; `renamed` puts files' own paths in place of links.
    """

    sql: str | None = None  # the text that ran
    edits: Sequence[Edit] = ()
    original: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)
    renamed: Callable[[str], str] = str
    reads: Literal["lake", "sources"] = "lake"  # a broken file of the lake is no fault of the user


@dataclass(frozen=True, slots=True)
class Cause:
    """One throwable of the JVM."""

    kind: str
    message: str
    condition: str | None
    sqlstate: str | None
    offset: int | None  # in the SQL that ran
    calls: str = ""  # lines of Python that made the failed expression
    fragment: str = ""  # the text at `offset`


def explain(error: BaseException, source: ErrorSource = ErrorSource()) -> TaskError:
    """The record of any exception that running a task can raise."""
    try:
        causes = list(_causes(error))
    except Exception:  # noqa: BLE001  # a JVM that does not answer is broken
        return _ended(error, source)
    return _ended(error, source) if has_ended() else _record_of(error, causes, source)


def _record_of(error: BaseException, causes: Sequence[Cause], source: ErrorSource) -> TaskError:
    if failure := next(filter(None, (of_worker(c.message) for c in causes)), None):
        return _record(
            failure.kind,
            failure.condition,
            None,
            message=failure.message,
            place=None,
            error=error,
            source=source,
        )
    if causes:
        return _of_spark(error, causes, source)
    return _of_python(error, source)


def _ended(error: BaseException, source: ErrorSource) -> TaskError:
    """The error of a request to a Spark that has ended, with any text: another task may have
    ended it."""
    message = how_ended() or f"Spark is gone: {type(error).__name__}"
    return _record(
        "infrastructure",
        OUT_OF_MEMORY if message == NO_MEMORY else "SPARK_GONE",
        None,
        message=message,
        place=None,
        error=error,
        source=source,
    )


def _record(
    kind: Literal["user", "infrastructure"],
    condition: str | None,
    sqlstate: str | None,
    message: str,
    place: Place | None,
    error: BaseException,
    source: ErrorSource,
) -> TaskError:
    file, line, column = place or (None, None, None)
    return {
        "kind": kind,
        "condition": condition,
        "sqlstate": sqlstate,
        "message": _renamed(message, source),
        "file": file,
        "line": line,
        "column": column,
        "detail": _renamed("".join(traceback.format_exception(error)), source),
    }


def _renamed(text: str, source: ErrorSource) -> str:
    """A text with the user's names instead of ours."""
    for view, name in source.views.items():
        text = re.sub(rf"\b{re.escape(view)}\b", name.replace("\\", r"\\"), text)
    for compiled, path in source.files.items():
        text = text.replace(compiled, path)
    return source.renamed(text)


# --- Spark --------------------------------------------------------------------------------------


def _causes(error: BaseException) -> Iterator[Cause]:
    """The chain of JVM throwables behind a Python exception, outermost first; empty if it is not
    the JVM's."""
    java = (
        error.java_exception
        if isinstance(error, Py4JJavaError)
        else getattr(error, "_origin", None)
    )
    if java is None and isinstance(error, CapturedException):
        yield Cause("", str(error), error.getCondition(), error.getSqlState(), None)
    while java is not None:
        yield _cause(java)
        java = java.getCause()


def _cause(java: Any) -> Cause:
    from py4j.java_gateway import is_instance_of
    from pyspark import SparkContext

    kind, message = java.getClass().getName(), str(java.getMessage() or "")
    gateway = SparkContext._gateway
    if gateway is None or not is_instance_of(gateway, java, "org.apache.spark.SparkThrowable"):
        return Cause(kind, message, None, None, None)
    contexts = list(java.getQueryContext())
    places = [(c.startIndex(), str(c.fragment())) for c in contexts if _is_sql(c)]
    offset, fragment = places[0] if places else (None, "")
    calls = "\n".join(str(c.callSite()) for c in contexts if str(c.contextType()) == "DATAFRAME")
    return Cause(
        kind,
        message,
        java.getCondition(),
        sqlstate=java.getSqlState(),
        offset=offset,
        calls=calls,
        fragment=fragment,
    )


def _is_sql(context: Any) -> bool:
    return str(context.contextType()) == "SQL" and not context.objectType()


def _of_spark(error: BaseException, causes: Sequence[Cause], source: ErrorSource) -> TaskError:
    cause = next(
        (c for c in causes if c.condition and not c.condition.startswith(_WRAPPERS)), causes[0]
    )
    kind: Literal["user", "infrastructure"] = (
        "infrastructure" if _is_broken(causes, source) else "user"
    )
    place = _sql_place(cause, source)
    for trace in (
        (cause.message, "".join(traceback.format_exception(error)), cause.calls)
        if source.files
        else ()
    ):
        place = place or _python_place(trace, source)
    message = _message(cause, causes, source)
    if source.reads == "lake" and any((c.condition or "").startswith(_NOT_THERE) for c in causes):
        return _record(
            kind,
            GONE,
            cause.sqlstate,
            message=f"{message}: {MADE_AGAIN}",
            place=place,
            error=error,
            source=source,
        )
    if source.reads == "lake" and (file := _damaged(causes)):
        return _record(
            kind,
            DAMAGED,
            cause.sqlstate,
            message=f"{file}: {message}: {DAMAGED_MADE_AGAIN}",
            place=place,
            error=error,
            source=source,
        )
    if kind == "infrastructure" and any(map(_is_out_of_memory, causes)):
        return _record(
            kind, OUT_OF_MEMORY, None, message=message, place=place, error=error, source=source
        )
    code = _RAISED_CODE.match(message) if cause.condition == "USER_RAISED_EXCEPTION" else None
    return _record(
        kind,
        code[1] if code else cause.condition,
        None if code else cause.sqlstate,
        message=message[code.end() :] if code else message,
        place=place,
        error=error,
        source=source,
    )


def _is_broken(causes: Sequence[Cause], source: ErrorSource) -> bool:
    conditions = [c.condition or "" for c in causes]
    if any(c.startswith("PYTHON_EXCEPTION") for c in conditions) and not any(
        _runs_out(c) for c in causes
    ):
        return False
    if any(_runs_out(c) or (c.condition or "").startswith("INTERNAL_ERROR") for c in causes):
        return True
    return source.reads == "lake" and any(
        c.startswith(("FAILED_READ_FILE", "PATH_NOT_FOUND")) for c in conditions
    )


def _damaged(causes: Sequence[Cause]) -> str:
    """The file that could not be read though machine and store work; empty if there is none."""
    if any(_runs_out(cause) for cause in causes):
        return ""
    read = (c.message for c in causes if (c.condition or "").startswith(_UNREADABLE))
    return next(filter(None, map(_file_of, read)), "")


def _runs_out(cause: Cause) -> bool:
    """Words count only where Spark gives no condition: a message with one may quote the user's
    data."""
    words = cause.condition is None and any(word in cause.message for word in _BROKEN_WORDS)
    is_known = cause.kind in _BROKEN_MACHINE or cause.kind.startswith(_BROKEN_STORE)
    return words or is_known or cause.condition == "SPARK_JOB_CANCELLED"


def _is_out_of_memory(cause: Cause) -> bool:
    """A text counts only where Spark gives no condition, as of `_runs_out`."""
    is_of_executor = cause.condition is None and any(
        words in cause.message for words in _EXECUTOR_NO_MEMORY
    )
    return is_of_executor or cause.kind in _NO_MEMORY


def _message(cause: Cause, causes: Sequence[Cause], source: ErrorSource) -> str:
    if "PYTHON_EXCEPTION" in (cause.condition or ""):
        return _last_line(cause.message)
    text = _words(cause.message) or cause.kind
    if source.reads == "lake":
        return text
    first = _first_line(text)
    read = next(
        (_words(c.message) for c in causes if (c.condition or "").startswith("FAILED_READ_FILE")),
        "",
    )
    root = next(filter(None, (_first_line(_words(c.message)) for c in reversed(causes))), "")
    parts = [_file_of(read), first, root if root not in first else ""]
    return ": ".join(filter(None, parts))


def _first_line(text: str) -> str:
    """The first line of a message about a source, in our words; empty for a class of the JVM
    alone."""
    line = text.partition("\n")[0]
    for pattern, words in _REPLACED:
        line = pattern.sub(words, line, count=1)
    return "" if _CLASS.fullmatch(line) else line


def _words(message: str) -> str:
    """A message without its condition in front, and without SQL state, query text and plans
    behind."""
    message = message.lstrip()  # the parser's begins with a line break
    text = _CONDITION.sub("", message, count=1) if message.startswith("[") else message
    return re.split(r"\s*SQLSTATE: |\n== SQL|\n\tat ", text, maxsplit=1)[0].strip()


def _file_of(message: str) -> str:
    path = re.search(r"reading file (.+?)\.(?:\s|$)", message)
    return path[1].removeprefix("file://") if path else ""


def _sql_place(cause: Cause, source: ErrorSource) -> Place | None:
    if source.sql is None or source.original is None:
        return None
    offset = cause.offset
    if offset is None and (position := _PARSER_PLACE.search(cause.message)):
        offset = offset_of(source.sql, int(position[1]), int(position[2]))
    # The last: it is in another text
    if offset is None or not source.sql.startswith(cause.fragment, offset):
        return None
    return _users_place(offset, source)


def _users_place(offset: int, source: ErrorSource) -> Place | None:
    """The place in the user's own text of one in the text that ran."""
    if source.original is None:
        return None
    line, column = place_of(source.original, original_offset(source.edits, offset))
    return None, line, column


# --- Python -------------------------------------------------------------------------------------


def _of_python(error: BaseException, source: ErrorSource) -> TaskError:
    place = _python_place("".join(traceback.format_exception(error)), source)
    if isinstance(error, TaskFailure):
        place = place or ((error.file, error.line or 1, None) if error.file else None)
        if error.offset is not None:
            place = _users_place(error.offset, source)
        return _record(
            error.kind,
            error.condition,
            None,
            message=error.message,
            place=place,
            error=error,
            source=source,
        )
    # Without a condition, as of `row["missing"]`, its class says what happened
    if isinstance(error, PySparkException) and error.getCondition():
        words = _words(str(error))
        return _record(
            "user",
            error.getCondition(),
            error.getSqlState(),
            message=words,
            place=place,
            error=error,
            source=source,
        )
    if isinstance(error, SyntaxError) and (name := source.files.get(error.filename or "")):
        place = (name, error.lineno or 1, error.offset)
    is_users = isinstance(error, PySparkException) or (
        place is not None and not isinstance(error, MemoryError | Py4JError | Py4JNetworkError)
    )
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    kind: Literal["user", "infrastructure"] = "user" if is_users else "infrastructure"
    return _record(
        kind, type(error).__name__, None, message=message, place=place, error=error, source=source
    )


def _python_place(trace: str, source: ErrorSource) -> Place | None:
    """The innermost line of the user's own code in a trace."""
    frames = [
        (source.files[a or b], int(n), None)
        for a, b, n in _FRAME.findall(trace)
        if (a or b) in source.files
    ]
    return frames[-1] if frames else None


def _last_line(message: str) -> str:
    """The error itself out of the text of a Python traceback."""
    lines = [line for line in re.split(r"\s*SQLSTATE: ", message)[0].splitlines() if line.strip()]
    return next(
        (line.strip() for line in reversed(lines) if not line.startswith((" ", "\t"))), message
    )
