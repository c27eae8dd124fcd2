"""Decoding what drivers and workers write: manifests, reports and lines of listings.

A process that runs users' code wrote them, so everything in them is checked before it is used.
Everything that later code relies on is checked here: types, ranges, depth, and that texts can be
stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias, assert_never, cast

from controlplane.core.model.table_paths import attempt_folder
from dataplane.contract.identity import Content
from dataplane.contract.kinds import Kind
from dataplane.contract.results import (
    ChannelAnswer,
    ConnectAnswer,
    FollowingResult,
    Measures,
    TaskError,
    TaskResult,
    infrastructure_error,
)
from dataplane.contract.source_objects import SourceObject
from dataplane.contract.transform_lineage import DIRECT, INDIRECT

Check: TypeAlias = Callable[[object, str], None]  # of a value and its place; raises Malformed

DEEPEST: Final = 200  # levels of nesting in JSON: a struct within a struct takes three
MOST_VALUES: Final = 4_000_000  # of a manifest: more would fill the memory of who reads it
MOST_PROBLEMS: Final = 10  # that are reported
LONGEST_KEY: Final = 4_000  # characters of a partition key
LONGEST_MESSAGE: Final = 4_000  # characters of an error's message
LONGEST_DETAIL: Final = 64_000  # characters of an error's trace
LONGEST_ADDRESS: Final = 500  # characters of an address that a driver names
LARGEST_COUNT: Final = 1 << 48  # of rows, bytes, objects: sums of many still have 63 bits
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}")
_LARGEST: Final = 10**40  # of any number: decimals have 38 digits
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Malformed(ValueError):
    """A value is not what docs/protocol.md says. The message names the place and the expected
    value."""


class Decoded(NamedTuple):
    """The results that name their tasks, and the problems of those that do not."""

    results: list[TaskResult]
    problems: list[str]


def manifest(raw: bytes, attempt: str, kind: Kind, prefix: str, tasks: int) -> Decoded:
    """The results of a `manifest.json` of an attempt with so many tasks. One that is no manifest of
    this attempt has a problem and no results."""
    if sum(map(raw.count, (b",", b"[", b"{"))) > MOST_VALUES:  # each stands before a value
        return Decoded([], [f"it has more than {MOST_VALUES} values"])
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as e:
        return Decoded([], [f"it is not JSON: {e}"[:LONGEST_MESSAGE]])
    if not isinstance(document, dict) or not isinstance(document.get("results"), list):
        return Decoded([], ["it is not an object with a list of results"])
    if document.get("attempt") != attempt:
        return Decoded([], ["it names another attempt"])
    if len(document["results"]) > tasks:
        return Decoded([], [f"it has more results than the attempt has tasks, {tasks}"])
    return results(document["results"], kind, prefix)


def results(values: Iterable[object], kind: Kind, prefix: str) -> Decoded:
    """Task results of an attempt of this kind, whose files lie below `prefix`.

    A result that names its task and is malformed otherwise stands for a failure of that task, so
    that its owner learns of it.
    """
    decoded, task_keys = Decoded([], []), set[str]()
    for number, value in enumerate(values):
        place = f"results[{number}]"
        try:
            _HEAD(value, place)
            record = cast("TaskResult", value)
            _require(record["task"] not in task_keys, place, "one result for each task")
        except Malformed as e:
            if len(decoded.problems) < MOST_PROBLEMS:
                decoded.problems.append(str(e))
            continue
        task_keys.add(record["task"])
        try:
            decoded.results.append(_result(record, kind, prefix, place))
        except Malformed as e:
            decoded.results.append(_damaged(record, kind, str(e)))
    return decoded


def _damaged(task_result: TaskResult, kind: Kind, problem: str) -> TaskResult:
    condition = "listing-damaged" if kind == "list" else "result-damaged"
    message = _shortened(
        printable(f"what the task gave is not as docs/protocol.md says: {problem}"), LONGEST_MESSAGE
    )
    error = infrastructure_error(condition, message)
    return {
        "task": task_result["task"],
        "epoch": task_result["epoch"],
        "state": "failed",
        "error": error,
    }


def _require(holds: bool, place: str, what: str) -> None:
    if not holds:
        raise Malformed(f"{place}: expected {what}")


def _result(task_result: TaskResult, kind: Kind, prefix: str, place: str) -> TaskResult:
    plain({name: value for name, value in task_result.items() if name != "error"}, place)
    match task_result["state"]:
        case "done":
            _done(task_result, kind, prefix, place)
        case "failed":
            _record({"error": error})(task_result, place)
            if kind == "parse" and task_result.get("result") is not None:
                _record({"result": _record({"schema": schema})})(task_result, place)
            return {**task_result, "error": readable(task_result["error"])}
        case "void":
            _require(
                kind in ("parse", "infer", "footers"),
                place,
                "a result of work that reads no source objects",
            )
        case _:
            assert_never(task_result["state"])
    return task_result


def _done(task_result: TaskResult, kind: Kind, prefix: str, place: str) -> None:
    match kind:
        case "parse" | "slice" | "transform" | "pack":
            output = _output(prefix)
            output(task_result, place)
            _record(
                optional={
                    "quarantine": _nullable(output),
                    "outputs": _nullable(_mapping(output)),
                    "then": _nullable(_list(_following(prefix))),
                    "metrics": _nullable(_METRICS),
                }
            )(task_result, place)
        case _:
            _record({"result": _RESULTS[kind]})(task_result, place)
            if kind in ("connect", "notify"):
                _readable_answer(cast("ConnectAnswer | ChannelAnswer", task_result["result"]))


def measures(value: object) -> Measures:
    """What a driver says that an attempt took. No decision depends on it, so malformed parts are
    left out."""
    if not isinstance(value, dict):
        return {}
    return cast(
        "Measures",
        {name: value[name] for name, is_fine in _MEASURES.items() if is_fine(value.get(name))},
    )


def _is_duration(value: object) -> bool:
    return type(value) in (int, float) and 0 <= cast("float", value) < LARGEST_COUNT


def _is_amount(value: object) -> bool:
    return _is_whole(value, LARGEST_COUNT)


def _is_address(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and 0 < len(value) <= LONGEST_ADDRESS


_MEASURES: Final[Mapping[str, Callable[[object], bool]]] = {
    "seconds": _is_duration,
    "bytes_read": _is_amount,
    "spark_jobs": _is_amount,
    "spark_stages": _is_amount,
    "spark_ui": _is_address,
    "event_log": _is_address,
}


def _readable_answer(answer: ConnectAnswer | ChannelAnswer) -> None:
    if answer["error"] is not None:
        answer["error"] = readable(answer["error"])


def source_object(value: object, place: str = "object") -> SourceObject:
    """One object of a listed partition."""
    plain(value, place)
    _OBJECT(value, place)
    return cast("SourceObject", value)


def listed_head(key: object, source: bytes, content: Content) -> None:
    """What a listing's tree holds of one partition. Raises Malformed."""
    _TEXT(key, "key")
    plain(key, "key")
    _require(len(str(key)) <= LONGEST_KEY, "key", f"at most {LONGEST_KEY} characters")
    if len(source) != 32:
        raise Malformed("source: expected 64 hexadecimal digits")
    _CONTENT(list(content), "content")


def readable(fault: TaskError) -> TaskError:
    """An error whose texts can be stored and shown: of bounded length, without NUL and lone
    surrogates. What the control plane itself adds to errors is no driver's to say."""
    texts = {
        name: printable(text)
        for name in ("condition", "sqlstate", "file")
        if (text := fault[name]) is not None
    }
    message = _shortened(printable(fault["message"]), LONGEST_MESSAGE)
    detail = _shortened(printable(fault["detail"]), LONGEST_DETAIL)
    own_fields = {name: fault[name] for name in _ERROR_FIELDS}  # type: ignore[literal-required]  # its own keys
    return cast("TaskError", {**own_fields, **texts, "message": message, "detail": detail})


def printable(text: str) -> str:
    """The text without what no database takes, or no encoding has."""
    return _SURROGATE.sub("\ufffd", text).replace("\0", "\ufffd")


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[:longest] + " ..."


# --- checks of plain values -----------------------------------------------------------------------


def plain(value: object, place: str, depth: int = 0) -> None:
    """A JSON value that every store and every reader of JSON takes: bounded depth and numbers,
    encodable texts."""
    if depth > DEEPEST:
        raise Malformed(f"{place}: more than {DEEPEST} levels of nesting")
    match value:
        case None | bool():
            return
        case str():
            if _SURROGATE.search(value):
                raise Malformed(f"{place}: the text holds a lone surrogate")
        case int() | float():
            if not -_LARGEST < value < _LARGEST:  # false for NaN, too
                raise Malformed(f"{place}: the number is out of range")
        case list():
            for at, member in enumerate(value):
                plain(member, f"{place}[{at}]", depth + 1)
        case dict():
            for name, member in value.items():
                plain(name, place, depth + 1)
                plain(member, f"{place}.{printable(name)[:100]}", depth + 1)
        case _:
            raise Malformed(f"{place}: not a value of JSON")


def _expected(what: str, test: Callable[[object], bool]) -> Check:
    def check(value: object, place: str) -> None:
        if not test(value):
            raise Malformed(f"{place}: expected {what}")

    return check


def _is_folder(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    key, text = value
    return isinstance(key, str) and (text is None or isinstance(text, str))


def _is_whole(value: object, below: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < below


_TEXT: Final = _expected("a text", lambda v: isinstance(v, str))
_FLAG: Final = _expected("true or false", lambda v: isinstance(v, bool))
_COUNT: Final = _expected("a whole number from 0 to 2^48", lambda v: _is_whole(v, LARGEST_COUNT))
_TASK: Final = _expected(
    "64 hexadecimal digits", lambda v: isinstance(v, str) and bool(_DIGEST.fullmatch(v))
)
_STATE: Final = _expected("done, failed or void", lambda v: v in ("done", "failed", "void"))
_FAULT: Final = _expected("user or infrastructure", lambda v: v in ("user", "infrastructure"))
_NAME: Final = _expected(
    "a file's name", lambda v: isinstance(v, str) and bool(_FILE_NAME.fullmatch(v))
)
_DIRECTION: Final = _expected("DIRECT or INDIRECT", lambda v: v in ("DIRECT", "INDIRECT"))
_SUBTYPE: Final = _expected("a subtype of OpenLineage's", lambda v: v in (*DIRECT, *INDIRECT))
_DICT: Final = _expected("an object", lambda v: isinstance(v, dict))


def _is_content(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 3:
        return False
    return _is_whole(value[0], LARGEST_COUNT) and all(
        _is_whole(part, 1 << 64) for part in value[1:]
    )


_CONTENT: Final = _expected("a content: the number of rows and two sums", _is_content)


def _nullable(check: Check) -> Check:
    def checked(value: object, place: str) -> None:
        if value is not None:
            check(value, place)

    return checked


def _list(item: Check) -> Check:
    def check(value: object, place: str) -> None:
        if not isinstance(value, list):
            raise Malformed(f"{place}: expected a list")
        for at, member in enumerate(value):
            item(member, f"{place}[{at}]")

    return check


def _mapping(item: Check) -> Check:
    def check(value: object, place: str) -> None:
        if not isinstance(value, dict):
            raise Malformed(f"{place}: expected an object")
        for name, member in value.items():
            item(member, f"{place}.{name}")

    return check


def _record(
    required: Mapping[str, Check] | None = None, optional: Mapping[str, Check] | None = None
) -> Check:
    """An object with these fields; others are let through, as later versions may have them."""

    def check(value: object, place: str) -> None:
        if not isinstance(value, dict):
            raise Malformed(f"{place}: expected an object")
        for name, field_check in (required or {}).items():
            if name not in value:
                raise Malformed(f"{place}.{name}: missing")
            field_check(value[name], f"{place}.{name}")
        for name, field_check in (optional or {}).items():
            if name in value:
                field_check(value[name], f"{place}.{name}")

    return check


# --- checks of records ----------------------------------------------------------------------------


def schema(value: object, place: str) -> None:
    """Spark's JSON of a struct type, as `canonical_schema` takes it."""
    if (
        not isinstance(value, dict)
        or value.get("type") != "struct"
        or not isinstance(value.get("fields"), list)
    ):
        raise Malformed(f"{place}: expected the JSON of a struct type")
    for at, field in enumerate(value["fields"]):
        _FIELD(field, f"{place}.fields[{at}]")


def _type(value: object, place: str) -> None:
    match value:
        case str():
            return
        case {"type": "struct"}:
            schema(value, place)
        case {"type": "array"}:
            _record({"elementType": _type})(value, place)
        case {"type": "map"}:
            _record({"keyType": _type, "valueType": _type})(value, place)
        case {"type": str()}:
            return  # a type of the user's own, which is kept as it is
        case _:
            raise Malformed(f"{place}: expected a type")


_FIELD: Final = _record({"name": _TEXT, "type": _type})
_PLACE: Final = _nullable(_COUNT)

_ERROR: Final[Mapping[str, Check]] = {
    "kind": _FAULT,
    "condition": _nullable(_TEXT),
    "sqlstate": _nullable(_TEXT),
    "message": _TEXT,
    "file": _nullable(_TEXT),
    "line": _PLACE,
    "column": _PLACE,
    "detail": _TEXT,
}
_ERROR_FIELDS: Final = tuple(_ERROR)
error: Final = _record(_ERROR)
_HEAD: Final = _record({"task": _TASK, "epoch": _COUNT, "state": _STATE})
_METRICS: Final = _record(optional={"dropped_rows": _COUNT, "dropped": _mapping(_COUNT)})


def _path_below(prefix: str) -> Check:
    def is_below(value: object) -> bool:
        if not isinstance(value, str) or not value.startswith(prefix + "/"):
            return False
        return not any(part in ("", ".", "..") for part in value.split("/"))

    return _expected("a path below the attempt's prefix", is_below)


def _file(prefix: str) -> Check:
    return _record(
        {"path": _path_below(prefix), "size": _COUNT, "rows": _COUNT, "stats": _nullable(_DICT)}
    )


def _output(prefix: str) -> Check:
    fields = {"files": _list(_file(prefix)), "content": _CONTENT, "schema": schema}
    return _record(fields, {"profile": _TEXT})


def _following(prefix: str) -> Check:
    def check(value: object, place: str) -> None:
        _record({"task": _TASK}, {"dataset": _TEXT, "metrics": _nullable(_METRICS)})(value, place)
        dataset = cast("FollowingResult", value).get("dataset")
        own_prefix = prefix if dataset is None else attempt_folder(prefix, dataset)
        _output(own_prefix)(value, place)

    return check


_FOLDER: Final = _expected("a key and its text, or null", _is_folder)
_OBJECT: Final = _record(
    {
        "name": _TEXT,
        "uri": _TEXT,
        "size": _COUNT,
        "modified_ms": _expected(
            "a whole number", lambda v: isinstance(v, int) and not isinstance(v, bool)
        ),
        "version": _TEXT,
        "columns": _nullable(_list(_TEXT)),
    },
    {"folders": _list(_FOLDER)},
)
_PARTITION: Final = _record(
    {"key": _TEXT, "source": _TASK, "content": _CONTENT, "objects": _list(_OBJECT)}
)
_LISTING: Final = _record(
    {
        "digest": _TASK,
        "objects": _COUNT,
        "bytes": _COUNT,
        "columns": _list(_nullable(_list(_TEXT))),
        "all_columns": _FLAG,
    },
    {"partitions": _list(_PARTITION), "file": _NAME, "after": _nullable(_TEXT)},
)

_STEP: Final = _record({"type": _DIRECTION, "subtype": _SUBTYPE})
_INPUT_FIELD: Final = _record({"name": _TEXT, "field": _TEXT, "transformations": _list(_STEP)})
_LINEAGE: Final = _record(
    {
        "fields": _mapping(_record({"inputFields": _list(_INPUT_FIELD)})),
        "dataset": _list(_INPUT_FIELD),
        "over_reported": _list(_TEXT),
    }
)

_RESULTS: Final[Mapping[Kind, Check]] = {
    "list": _LISTING,
    "footers": _record(
        {"misread": _list(_record(dict.fromkeys(("file", "column", "have", "read"), _TEXT)))}
    ),
    "infer": _record({"schema": schema}),
    "analyse": _record({"schema": _nullable(schema)}, {"lineage": _LINEAGE}),
    "index": _record({"keys": _mapping(_CONTENT)}),
    "check": _record({"rows": _COUNT, "failing": _COUNT, "examples": _list(_TEXT)}),
    "write": _nullable(_record(optional={"rows": _COUNT, "bytes": _COUNT})),
    "notify": _record({"error": _nullable(error)}),
    "connect": _record({"connector": _TEXT, "place": _TEXT, "error": _nullable(error)}),
}
