"""Columns of CSV files whose types of numbers were inferred: a text that the type does not hold is
an error, so that the column gets the type that all files together have. Spark would read `02134`
under INT as another value.

Spark reads such columns as texts, which costs a third more. So it first reads them under their
types, except the types of which no search in the file's bytes finds each such text (number_search).
Where it finds one, the columns are read here. Declared types are read as Spark reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dataplane.connectors.files.numbers import NOT_HELD, is_held, is_number, value_of
from dataplane.contract.claims import ParseTask
from dataplane.contract.jobs import ParseJob
from dataplane.contract.results import LABEL
from dataplane.contract.schemas import Json, field_types
from dataplane.contract.types import in_words
from dataplane.fragments.content import quoted

SEARCHED = frozenset({"integer", "long", "double"})
_SHOWN = 100  # characters of a text in a message


@dataclass(frozen=True, slots=True)
class CheckedNumbers:
    """`kinds`: the types of these columns, by name. Their reader is to give them as texts."""

    kinds: Mapping[str, str]
    options: Mapping[str, Json]

    @staticmethod
    def of(job: ParseJob, task: ParseTask) -> CheckedNumbers:
        """All columns of inferred numbers."""
        return CheckedNumbers(_inferred_types(job, task), job["options"])

    @staticmethod
    def beside_search(job: ParseJob, task: ParseTask) -> CheckedNumbers:
        """The columns of inferred numbers that a search in the bytes of the task's files does not
        cover."""
        kinds = _inferred_types(job, task)
        return CheckedNumbers({n: k for n, k in kinds.items() if k not in SEARCHED}, job["options"])

    def read(self, rows: DataFrame, columns: Collection[str], corrupt: str | None) -> DataFrame:
        """The rows with numbers in place of texts. With `corrupt`, a column that marks malformed
        rows, those in which a text is not held are marked; else they are errors."""
        kinds = {name: kind for name, kind in self.kinds.items() if name in columns}
        if not kinds:
            return rows
        held = {name: self._is_held(name) for name in kinds}
        if corrupt is None:
            return rows.withColumns({name: self._number(name, held[name]) for name in kinds})
        is_lost = reduce(or_, (~is_column_held for is_column_held in held.values()))
        mark = F.coalesce(F.col(corrupt), F.when(is_lost, F.lit("a number that is not held")))
        values = {name: F.when(held[name], self._value(name)) for name in kinds}
        return rows.withColumns({**values, corrupt: mark})

    def _is_held(self, name: str) -> Column:
        text = F.col(quoted(name))
        return (
            text.isNull()
            | (text == "")
            | F.coalesce(is_held(text, self.kinds[name], self.options), F.lit(False))
        )

    def _value(self, name: str) -> Column:
        return value_of(F.col(quoted(name)), self.kinds[name], self.options)

    def _number(self, name: str, is_held: Column) -> Column:
        text = F.substring(F.col(quoted(name)), 1, _SHOWN)
        message = f": column {name} is {in_words(self.kinds[name])} in the dataset, {NOT_HELD}"
        error = F.concat(F.lit(f"{LABEL}="), F.col(LABEL), F.lit(message), text)
        return F.when(is_held, self._value(name)).otherwise(
            F.raise_error(error).cast(self.kinds[name])
        )


def searched_types(job: ParseJob, task: ParseTask) -> frozenset[str]:
    """The types under which Spark reads inferred numbers unless the search in the files' bytes
    finds one."""
    return SEARCHED.intersection(_inferred_types(job, task).values())


def _inferred_types(job: ParseJob, task: ParseTask) -> dict[str, str]:
    kinds = field_types(task["columns"]) if job["format"] == "csv" else {}
    return {n: k for n in task.get("inferred", ()) if is_number(k := kinds.get(n, "void"))}
