"""Answers questions of `dataplane.contract.query_protocol` one after the other, each query in a
database of its own.

A query that outlives its deadline is interrupted; if that does not end it, the kernel ends this
process.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from io import BufferedWriter, RawIOBase
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from dataplane.contract.query_protocol import (
    ARROW,
    GRACE_S,
    HEAD,
    LAST,
    AsFile,
    Compare,
    Compared,
    PageFound,
    PageQuestion,
    ProcessBounds,
    QueryQuestion,
    Ran,
    ReadRecords,
    Refusal,
    RunQuestion,
    TableReference,
    named,
)
from dataplane.contract.schemas import Json
from dataplane.fragments import file_records
from dataplane.fragments.cutting import encoded
from dataplane.query import database, json_pages, parquet_file, query_results, text_file
from dataplane.query.result_comparison import compared
from dataplane.query.statement import Parser, Statement, StatementRefused
from dataplane.storage.lake import open_lake

if TYPE_CHECKING:
    import duckdb

PIECE_BYTES = 1 << 20
BUFFER_BYTES = 1 << 16
DEADLINE = "the query takes longer than {seconds:g} s; narrow it, or allow more time"
MEMORY = "the query takes more than {memory} MB of memory and {disk} MB of disk; narrow it"


class Pieces:
    """Writes bytes as `A` frames."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self.closed = out, False

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        for start in range(0, len(view), PIECE_BYTES):
            piece = view[start : start + PIECE_BYTES]
            self._out.write(HEAD.pack(ARROW, len(piece)))
            self._out.write(piece)
        return len(view)

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        self._out.flush()

    def close(self) -> None:
        self.closed = True


class QueryWorker:
    def __init__(self, bounds: ProcessBounds, out: BinaryIO) -> None:
        self._bounds, self._out = bounds, out
        self._lake = open_lake(bounds["lake"])

    @cached_property
    def _parser(self) -> Parser:
        """DuckDB, which records and pages of results do without."""
        return Parser()

    def answer(self, question: QueryQuestion) -> None:
        """Write the frames of one answer."""
        try:
            value: Json = self._value(question)
        except StatementRefused as e:
            value = {"refusal": e.refusal}
        write_last(self._out, value)

    def _value(self, question: QueryQuestion) -> Json:
        match question["ask"]:
            case "inspect":
                return self._parser.inspect(question["sql"]).inspected
            case "run":
                return self._run(question)
            case "page":
                return page(question, Pieces(self._out))
            case "file":
                return _as_file(question)
            case "compare":
                return _compare(question)
            case "records":
                return self._records(question)
            case "spark" | "stop":
                raise ValueError("not asked of DuckDB")

    def _run(self, question: RunQuestion) -> Ran:
        statement = self._parser.inspect(question["sql"])
        references = [table["reference"] for table in question["tables"]]
        _check_references(statement, references)
        try:
            with (
                database.database_of(self._lake, question["tables"], self._bounds) as opened,
                _deadline(opened, question["seconds"]),
            ):
                opened.execute(statement.sql, question["parameters"] or None)
                return query_results.write(opened, Pieces(self._out), question["limit"])  # type: ignore[arg-type]  # as much of a file as Arrow needs
        except Exception as error:
            raise self._users_error(error, statement, question) from error

    def _records(self, question: ReadRecords) -> Json:
        """Raises QueryRefused where a file cannot be read; some pieces may have gone before."""
        # As much of one as it needs
        out = BufferedWriter(cast("RawIOBase", Pieces(self._out)), BUFFER_BYTES)
        try:
            file_records.write(self._lake, question["request"], out)
            out.flush()
        except Exception as e:
            out.detach()
            raise StatementRefused(
                {"kind": "lake", "message": f"{type(e).__name__}: {e}", "at": None}
            ) from e
        return {}

    def _users_error(
        self, error: Exception, statement: Statement, question: RunQuestion
    ) -> Exception:
        """The refusal that a user gets for an engine error. An error that is not the user's is
        returned as it is, and ends this process."""
        import duckdb

        match error:
            case duckdb.InterruptException():
                return _limit(DEADLINE.format(seconds=question["seconds"]))
            case duckdb.OutOfMemoryException() | MemoryError():
                memory, disk = (self._bounds[name] >> 20 for name in ("memory_bytes", "disk_bytes"))
                return _limit(MEMORY.format(memory=memory, disk=disk))
            case duckdb.FatalException() | duckdb.InternalException():
                return error
            case duckdb.Error() | OSError() | ValueError() | TypeError():
                return _refused(str(error), statement)
            case _:
                return error


def write_last(out: BinaryIO, value: Json) -> None:
    """The last frame of an answer."""
    body = encoded(value)
    out.write(HEAD.pack(LAST, len(body)))
    out.write(body)
    out.flush()


def page(question: PageQuestion, out: Pieces) -> PageFound:
    """Raises QueryRefused where the result is gone."""
    try:
        return json_pages.write(question, out)
    except (OSError, ValueError) as e:  # it went to make room, or the disk lost a part of it
        raise _result_lost(e) from e


def _as_file(question: AsFile) -> Json:
    try:
        if question["form"] == "parquet":
            parquet_file.write(question["path"], question["to"])
        else:
            text_file.write(question)
    except FileNotFoundError as e:
        raise _result_lost(e) from e
    except (OSError, ValueError) as e:
        message = f"there is no {question['form']} file of the result: {e}"
        raise StatementRefused({"kind": "lake", "message": message, "at": None}) from e
    return {}


def _compare(question: Compare) -> Compared:
    try:
        return compared(question["one"], question["other"], question["samples"])
    except (OSError, ValueError) as e:
        raise _result_lost(e) from e


def _result_lost(error: Exception) -> StatementRefused:
    return StatementRefused({"kind": "lake", "message": f"the result is gone: {error}", "at": None})


def _check_references(statement: Statement, references: list[TableReference]) -> None:
    """Refuse the engine's own tables: they describe other things than the query's tables."""
    names = {named(reference) for reference in references}
    for used in statement.inspected["references"]:
        if named(used) not in names:
            message = f"there is no table {used['dataflow']}.{used['table']}"
            raise StatementRefused({"kind": "unknown", "message": message, "at": used["at"]})


@contextmanager
def _deadline(opened: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, opened.interrupt)
    timer.daemon = True
    timer.start()
    # There is no handler: the kernel ends this process
    signal.setitimer(signal.ITIMER_REAL, seconds + GRACE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        timer.cancel()


def _limit(message: str) -> StatementRefused:
    return StatementRefused({"kind": "limit", "message": message, "at": None})


def _refused(text: str, statement: Statement) -> StatementRefused:
    """The engine's message without its JSON, and the place that it reports."""
    _, _, body = text.partition(": ")
    try:
        error = json.loads(body)
        message, position = str(error["exception_message"]), error.get("position")
    except (ValueError, KeyError, TypeError):
        message, position = text, None
    if position is None and _is_of_files(text):
        return StatementRefused({"kind": "lake", "message": message.splitlines()[0], "at": None})
    message = " ".join(message.split())
    at = None if position is None else statement.text.origin_of_byte(int(position))
    refusal: Refusal = {"kind": "refused", "message": message, "at": at}
    return StatementRefused(refusal)


def _is_of_files(text: str) -> bool:
    return any(
        word in text for word in ("arrow_scan", "get_next", "Failed to open local file", "Parquet")
    )
