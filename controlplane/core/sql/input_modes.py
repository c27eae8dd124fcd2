"""How each input of a query may be read, with the reason: the one place that says so.

`each` is proven over the text (modes), `by` and decomposable aggregates over relations (keyed,
decomposable).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from controlplane.core.sql import keyed_inputs, time_windows
from controlplane.core.sql.column_origins import KnownNames
from controlplane.core.sql.decomposable import decompose
from controlplane.core.sql.function_calls import Calls, Unproven, check_size
from controlplane.core.sql.mode_proof import Mode, Shape
from controlplane.core.sql.output_columns import NOTHING_KNOWN, OutputColumns, output_columns
from controlplane.core.sql.references import TableRef
from controlplane.core.sql.relations import Relation, relation_of
from controlplane.core.sql.scan import Lexeme
from controlplane.core.sql.sql_problem import line_column
from controlplane.core.sql.volatile import VolatileCall


@dataclass(frozen=True, slots=True)
class OutputKeyPart:
    """A part of the output's key: one of its columns, or a granule of it such as `month`.
    `granule_s`: of a granule that begins at multiples of so many seconds since 1970, or of days in
    it; 0 if it does not.
    """

    name: str
    granule: str = ""
    granule_s: int = 0


@dataclass(frozen=True, slots=True)
class InputKey:
    """What a part of the key is in the rows of an input. `expression` is for people; `column` is
    empty if it is more. `window`: the length of the window whose start is that part. Its rows'
    time is the column, unless windows may begin in another granule than their rows.

    The caller, which knows the types, has to ensure that the values have the same text on every
    side.
    """

    part: OutputKeyPart
    expression: str
    column: str
    window: str = ""


@dataclass(frozen=True, slots=True)
class PartsMerge:
    """Partial results over parts of an input may be merged while all other inputs are read whole.

    `aggregates` by the names of their functions, none if there are only groups. `start` is where in
    the text what the aggregating scope selects begins, and `line` its line.
    """

    aggregates: tuple[str, ...]
    start: int
    line: int

    @property
    def words(self) -> str:
        return f"decomposable: {', '.join(self.aggregates) or 'groups'} of parts can be merged"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The proven mode of one input. `keys` are there for `by`; `merge` for `all`, or `unmerged`
    says why not. `at`: as of `Mode`."""

    mode: Literal["each", "by", "all"]
    reason: str
    keys: tuple[InputKey, ...] = ()
    merge: PartsMerge | None = None
    unmerged: str = ""
    at: int | None = None

    @property
    def planned(self) -> Mode:
        """The mode in which it is read today: partitions of `each` inputs, everything else
        whole."""
        words = self.reason if self.mode != "by" else f"`all`: it could be read {self.reason}"
        if self.merge is not None:
            words = f"{words}; {self.merge.words}"
        return Mode("each" if self.mode == "each" else "all", words)


@dataclass(frozen=True, slots=True)
class Analysis:
    """What proofs are made from. `tree` is None where only Spark can read the query."""

    text: str
    lexemes: tuple[Lexeme, ...]
    tree: exp.Expr | None
    references: tuple[TableRef, ...]
    volatile: tuple[VolatileCall, ...]
    shape: Shape

    def verdicts(
        self, partition_by: tuple[OutputKeyPart, ...], columns: KnownNames
    ) -> Mapping[str, Verdict]:
        """By the names that the inputs have in the text."""
        names = tuple(dict.fromkeys(ref.name for ref in self.references))
        if not partition_by and self.shape.scopes:
            return {name: _plain(self.shape.mode(self.references, name)) for name in names}
        if self.tree is None:
            return {
                name: Verdict("all", self.shape.reason, unmerged=self.shape.reason)
                for name in names
            }
        try:
            calls = Calls(self.lexemes, self.tree)
            relation = relation_of(self.tree, self.references)
        except Unproven as unproven:
            reason = self._words(unproven)
            words = f"`all`: {reason}" if partition_by else self.shape.reason
            at = unproven.offset if partition_by else self.shape.at
            return {name: Verdict("all", words, unmerged=reason, at=at) for name in names}
        by_key = self._by(relation, calls, partition_by, columns)
        return {
            name: by_key.get(name) or self._all(relation, calls, name, by_key[""]) for name in names
        }

    def outputs(self, columns: KnownNames) -> tuple[str, ...] | None:
        """Names of the output's columns in order; empty where an expression has none; None if they
        are unknown."""
        if self.tree is None:
            return None
        try:
            check_size(self.tree)
        except Unproven:
            return None
        return columns.outputs(relation_of(self.tree, self.references))

    def output_columns(self, columns: KnownNames) -> OutputColumns:
        """As `outputs`, with places, and with those that are known though others are not."""
        if self.tree is None:
            return NOTHING_KNOWN
        try:
            check_size(self.tree)
        except Unproven:
            return NOTHING_KNOWN
        return output_columns(self.text, relation_of(self.tree, self.references), columns)

    def _by(
        self,
        relation: Relation,
        calls: Calls,
        partition_by: tuple[OutputKeyPart, ...],
        columns: KnownNames,
    ) -> dict[str, Verdict]:
        """Verdicts of inputs that are read by the key; under the empty name, the reason why all
        others are not."""
        if not partition_by:
            return {"": Verdict("all", self.shape.reason, at=self.shape.at)}
        try:
            proof = keyed_inputs.prove(
                relation, calls, columns, [part.name for part in partition_by]
            )
        except Unproven as unproven:
            reason = f"`all`: {self._words(unproven)}"
            return {"": Verdict("all", reason, at=unproven.offset)}
        by = {
            ref.name: proof.by[ref.name.lower()]
            for ref in self.references
            if ref.name.lower() in proof.by
        }
        verdicts = {name: _keyed(partition_by, expressions) for name, expressions in by.items()}
        readers = ", ".join(by)
        return {**verdicts, "": Verdict("all", f"`all`: any row may meet any row of {readers}")}

    def _all(self, relation: Relation, calls: Calls, name: str, why: Verdict) -> Verdict:
        try:
            decomposed = decompose(relation, calls, self.volatile, name)
        except Unproven as unproven:
            return Verdict("all", why.reason, unmerged=self._words(unproven), at=why.at)
        start = decomposed.scope.offset
        merge = PartsMerge(decomposed.aggregates, start, line_column(self.text, start)[0])
        return Verdict("all", why.reason, merge=merge, at=why.at)

    def _words(self, unproven: Unproven) -> str:
        return f"{unproven.what} at line {line_column(self.text, unproven.offset)[0]}"


def _plain(mode: Mode) -> Verdict:
    unmerged = "" if mode.mode == "each" else "the query has no aggregate"
    return Verdict(mode.mode, mode.reason, unmerged=unmerged, at=mode.at)


def _input_key(part: OutputKeyPart, expression: exp.Expr) -> InputKey:
    if isinstance(expression, exp.Column):
        return InputKey(part, expression.name, expression.name)
    tumbling = time_windows.start_of_tumbling(expression)
    if tumbling is None or not isinstance(tumbling.time, exp.Column):
        return InputKey(part, expression.sql("spark"), "")
    if not tumbling.lies_within(part.granule_s):
        return InputKey(part, expression.sql("spark"), "", tumbling.length)
    # The window begins in the granule of its rows: their time gives the same key
    return InputKey(part, tumbling.time.name, tumbling.time.name, tumbling.length)


def _keyed(partition_by: tuple[OutputKeyPart, ...], expressions: tuple[exp.Expr, ...]) -> Verdict:
    keys = tuple(map(_input_key, partition_by, expressions))
    words = ", ".join(
        f"{k.part.granule} of {k.expression}" if k.part.granule else k.expression for k in keys
    )
    return Verdict(
        "by", f"`by` {words}: rows with one key make the rows of the output with it", keys
    )
