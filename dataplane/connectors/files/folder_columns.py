"""Columns that folders `key=value` give, beside the rows of the files in them.

A column that a file itself has wins; a folder with another value is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from dataplane.contract.schemas import Field
from dataplane.contract.source_objects import SourceObject, is_folder_column
from dataplane.spark.spark_schemas import type_of_column
from dataplane.task_failures import WORKER_FAILURE

PLACE = "__headgate_place"  # of the file of a row
LONGEST_VALUE = 200  # characters of a value in an error
_UNCOMPARED = ("binary", "timestamp")  # a text has no zone, so it is no instant
# Where a file's value of a column comes from.
# open: the file's own columns are unknown
_FILE, _FOLDER, _BOTH, _OPEN = "file", "folder", "both", "open"


@dataclass(frozen=True, slots=True)
class FolderColumns:
    """The columns that folders of some files give. Each file has the text of each, and where the
    value comes from."""

    names: tuple[str, ...]
    distinguishes_empty: bool  # the format distinguishes an empty text from NULL

    @staticmethod
    def of(objects: Iterable[SourceObject], format: str) -> FolderColumns:
        names = dict.fromkeys(key for source in objects for key, _ in source.get("folders", ()))
        return FolderColumns(tuple(names), distinguishes_empty=format != "csv")

    @property
    def kinds(self) -> str:
        """The columns of a file's row of values, as DDL."""
        return "".join(f", {_text(i)} STRING, {_origin(i)} STRING" for i in range(len(self.names)))

    def row(self, source: SourceObject) -> list[str | None]:
        texts = dict(source.get("folders", ()))
        return [
            value
            for name in self.names
            for value in (texts.get(name), _origin_of(source, name, texts))
        ]

    def value(self, column: Field, own: Column) -> Column:
        """A column's value in a row of a file. `own`: the file's value; NULL where it has no such
        column."""
        number = self.names.index(column["name"])
        text, origin = F.col(_text(number)), F.col(_origin(number))
        value = text.try_cast(type_of_column(column))
        checked = self._checked(column, own, text, value)
        filled = F.when(own.isNull(), value).otherwise(checked)
        chosen = (
            F.when(origin == _FOLDER, value)
            .when(origin == _FILE, own)
            .when(origin == _BOTH, checked)
        )
        return chosen.otherwise(filled).alias(column["name"])

    def _checked(self, column: Field, own: Column, text: Column, value: Column) -> Column:
        """The file's value; where the folder has another one, an error."""
        kind = column["type"]
        if not isinstance(kind, str) or kind in _UNCOMPARED:
            return own
        if kind == "string" and not self.distinguishes_empty:
            own = F.coalesce(own, F.when(text == "", text))
        differing = _differing(column["name"], own, text).cast(type_of_column(column))
        return F.when(own.eqNullSafe(value), own).otherwise(differing)


def _origin_of(source: SourceObject, name: str, texts: Iterable[str]) -> str:
    if name not in texts:
        return _FILE
    if source["columns"] is None:
        return _OPEN
    return _FOLDER if is_folder_column(source, name) else _BOTH


def _differing(name: str, own: Column, text: Column) -> Column:
    """Raises TaskFailure."""
    cut_texts = [
        F.coalesce(F.left(column.cast("string"), F.lit(LONGEST_VALUE)), F.lit("NULL"))
        for column in (own, text)
    ]
    texts = [
        F.lit(f": column {name} is "),
        cut_texts[0],
        F.lit(" in the file, and "),
        cut_texts[1],
        F.lit(" in its folder's name"),
    ]
    message = F.concat(F.col(PLACE), *texts)
    parts = F.array(F.lit("folder-value-differs"), message, F.lit("user"), F.col(PLACE))
    return F.raise_error(F.concat(F.lit(WORKER_FAILURE), F.to_json(parts)))


def _text(number: int) -> str:
    return f"__headgate_folder_{number}"


def _origin(number: int) -> str:
    return f"__headgate_origin_{number}"
