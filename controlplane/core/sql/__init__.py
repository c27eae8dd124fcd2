"""Spark SQL as text: identity, references, parameters, columns, partition modes, and edits that
keep positions.

SQL is read here, never run and never printed from a tree.
"""

from __future__ import annotations

from controlplane.core.sql.analysed_query import AnalysedQuery, analyse
from controlplane.core.sql.edits import Edit, apply_edits, original_offset
from controlplane.core.sql.function_calls import Unproven
from controlplane.core.sql.input_modes import InputKey, OutputKeyPart, PartsMerge, Verdict
from controlplane.core.sql.mode_proof import Mode
from controlplane.core.sql.output_columns import OutputColumn, OutputColumns
from controlplane.core.sql.predicate import Predicate, predicate, row_predicate
from controlplane.core.sql.references import TableRef
from controlplane.core.sql.resolution import UNKNOWN, ColumnUse
from controlplane.core.sql.split import PARTS, Split
from controlplane.core.sql.sql_problem import SqlProblem
from controlplane.core.sql.time_distance import TimeColumns, TimeDistance
from controlplane.core.sql.time_windows import SLIDING
from controlplane.core.sql.volatile import VolatileCall

__all__ = [
    "PARTS",
    "SLIDING",
    "UNKNOWN",
    "AnalysedQuery",
    "ColumnUse",
    "Edit",
    "InputKey",
    "Mode",
    "OutputColumn",
    "OutputColumns",
    "OutputKeyPart",
    "PartsMerge",
    "Predicate",
    "Split",
    "SqlProblem",
    "TableRef",
    "TimeColumns",
    "TimeDistance",
    "Unproven",
    "Verdict",
    "VolatileCall",
    "analyse",
    "apply_edits",
    "original_offset",
    "predicate",
    "row_predicate",
]  # fmt: skip
