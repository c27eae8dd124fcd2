"""Options of Spark's readers: the user's own, and those that decide whether bad data is seen, which
are ours."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrameReader, SparkSession

from dataplane.contract.schemas import Json
from dataplane.listing.encodings import is_wide
from dataplane.task_failures import TaskFailure

CORRUPT = "__headgate_corrupt"
RECORD_TEXT = "__headgate_record"  # the text of a bad record
# Options that change which files, rows or columns are read, or hide errors: the read component's
# own keys say that.
_OURS = frozenset(
    {
        "avroschema",
        "avroschemaurl",
        "basepath",
        "columnnameofcorruptrecord",
        "columnpruning",
        "datetimerebasemode",
        "enforceschema",
        "ignorecorruptfiles",
        "ignoreextension",
        "ignoremissingfiles",
        "inferschema",
        "mergeschema",
        "mode",
        "modifiedafter",
        "modifiedbefore",
        "path",
        "paths",
        "pathglobfilter",
        "positionalfieldmatching",
        "recursivefilelookup",
        "samplingratio",
    }
)
_ALL_CHARSETS = "spark.sql.legacy.javaCharsets"  # without it Spark refuses UTF-32LE and UTF-32BE
# Spark itself has the reader of Avro; only its short name is in the jar spark-avro
_SPARK_NAMES = {"binary": "binaryFile", "avro": "org.apache.spark.sql.avro.AvroFileFormat"}
FORMATS = ("csv", "json", "parquet", "orc", "avro", "text", "binary")


def users_options(options: Mapping[str, Json]) -> dict[str, str]:
    """Options as texts, with lower-case names; ours left out."""
    texts = {
        k.lower(): str(v).lower() if isinstance(v, bool) else str(v)
        for k, v in options.items()
        if v is not None
    }
    return {k: v for k, v in texts.items() if k not in _OURS}


def reader(session: SparkSession, kind: str, options: Mapping[str, Json]) -> DataFrameReader:
    """A reader that fails at the first malformed record; missing are schema and place."""
    if kind not in FORMATS:
        raise TaskFailure("not-supported", f"files of format {kind!r} cannot be read yet")
    _check_encoding(kind, users_options(options))
    strict = {"mode": "FAILFAST", "columnNameOfCorruptRecord": CORRUPT}
    if kind == "csv":
        strict["columnPruning"] = "false"  # a ragged row is seen only if all of it is parsed
        if is_wide(encoding_of(kind, options) or ""):
            strict["multiLine"] = "true"  # else Spark looks for the byte of a line break
            session.conf.set(_ALL_CHARSETS, "true")
    return (
        session.read.format(_SPARK_NAMES.get(kind, kind))
        .options(**users_options(options))
        .options(**strict)
    )


def _check_encoding(kind: str, options: Mapping[str, str]) -> None:
    """TaskFailure for JSON whose lines Spark does not find."""
    encoding = options.get("encoding", options.get("charset", "utf-8"))
    is_whole = options.get("multiline", "false").lower() == "true"
    if kind != "json" or is_whole or encoding.lower() in ("utf-8", "utf8"):
        return
    has_marks = encoding.lower() in ("utf-16", "utf-32")
    if "linesep" in options and not has_marks:
        return
    remedy = (
        f"name the order of bytes, as {encoding}LE, and write `lineSep`"
        if has_marks
        else 'write `lineSep: "\\n"`'
    )
    message = (
        f"lines of JSON in {encoding} cannot be told apart: save the files in UTF-8, or {remedy}"
    )
    raise TaskFailure("not-supported", message)


def has_header(kind: str, options: Mapping[str, Json]) -> bool:
    return kind == "csv" and users_options(options).get("header", "false").lower() == "true"


def encoding_of(kind: str, options: Mapping[str, Json]) -> str | None:
    """The text encoding of files of a format; None for formats that are not text."""
    if kind not in ("csv", "json", "text"):
        return None
    mine = users_options(options)
    return mine.get("encoding", mine.get("charset", "utf-8"))
