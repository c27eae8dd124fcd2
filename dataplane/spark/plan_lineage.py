"""Column lineage of a DataFrame, read off its analysed plan: an attribute is known by the number
that Spark gave it.

Each node is looked at after those below it, so that a number has its meaning at that place:

    a leaf                  -> columns of an input; of no input: rows that the code brought itself
    Project Aggregate ...   -> each named expression, over what is known below
    Filter Join Sort ...    -> columns that decide which rows there are, or in which order
    a function of Python    -> all columns that it is given, for each that it gives: nothing is known beyond that

Functions on single values (UDFs) are expressions: their results come of their arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from dataplane.contract.transform_lineage import (
    NOTHING,
    ColumnLineage,
    Indirect,
    Tracing,
    Value,
    all_columns,
    merged,
)
from dataplane.spark.plan_json import PlanNode, UnreadablePlan, plan_of
from dataplane.spark.plan_trees import nodes_of

_RDD: Final = "org.apache.spark.sql.execution.LogicalRDD"
_CONSTANT: Final = frozenset({"LocalRelation", "OneRowRelation", "Range"})
_LEFT_ALONE: Final = ("LeftSemi", "LeftAnti")
_NAMED: Final = {
    "Project": "projectList",
    "Aggregate": "aggregateExpressions",
    "Window": "windowExpressions",
}
_DECIDING: Final[Mapping[str, tuple[tuple[str, Indirect], ...]]] = {
    "Aggregate": (("groupingExpressions", "GROUP_BY"),),
    "AsOfJoin": (("asOfCondition", "JOIN"), ("condition", "JOIN")),
    "Deduplicate": (("keys", "GROUP_BY"),),
    "Filter": (("condition", "FILTER"),),
    "FlatMapCoGroupsInArrow": (("leftAttributes", "GROUP_BY"), ("rightAttributes", "GROUP_BY")),
    "FlatMapCoGroupsInPandas": (("leftAttributes", "GROUP_BY"), ("rightAttributes", "GROUP_BY")),
    "FlatMapGroupsInArrow": (("groupingAttributes", "GROUP_BY"),),
    "FlatMapGroupsInPandas": (("groupingAttributes", "GROUP_BY"),),
    "Join": (("condition", "JOIN"),),
    "LateralJoin": (("condition", "JOIN"),),
    "Sort": (("order", "SORT"),),
    "Window": (("partitionSpec", "WINDOW"), ("orderSpec", "WINDOW")),
}
_OF_ORDER: Final = frozenset({"CumeDist", "DenseRank", "NTile", "PercentRank", "Rank", "RowNumber"})
_ROUNDS: Final = 20  # of a recursive query, until its columns come of nothing new


@dataclass(frozen=True, slots=True)
class _NodeOutput:
    """The output of a node: its attributes in order, and the origins of each."""

    ids: tuple[int, ...]
    values: Mapping[int, Value]


def column_lineage(rows: DataFrame, inputs: Mapping[str, DataFrame]) -> ColumnLineage | None:
    """The column lineage of these rows over these inputs, by their names; None for a plan that
    cannot be read.

    Nothing is run. An analysis does not fail for its lineage, with any form of plan.
    """
    try:
        plan = plan_of(rows._jdf.queryExecution().analyzed())
        walk = _PlanWalk(tuple(inputs), input_leaves(rows, inputs))
        rows_of_plan = walk.rows(plan, {})
    except Exception:  # noqa: BLE001  # of the JVM, of a node in another form, of a plan that is too deep
        return None
    names = rows.columns
    if len(names) != len(rows_of_plan.ids):
        return None
    return walk.tracing.lineage(
        {name: rows_of_plan.values[id] for name, id in zip(names, rows_of_plan.ids, strict=True)}
    )


def input_leaves(rows: DataFrame, inputs: Mapping[str, DataFrame]) -> dict[int, str]:
    """The inputs at the leaves of the plan, by the first attribute of each: Spark renumbers them
    where an input is read twice, and keeps the RDD."""
    of_rdd: dict[int, str] = {}
    for name, frame in inputs.items():
        for leaf in _rdds(frame):
            of_rdd[int(leaf.rdd().id())] = name
    names_by_id: dict[int, str] = {}
    for leaf in _rdds(rows):
        read = of_rdd.get(int(leaf.rdd().id()))
        if read is not None and leaf.output().size():
            names_by_id[int(leaf.output().apply(0).exprId().id())] = read
    return names_by_id


def _rdds(rows: DataFrame) -> list[JavaObject]:
    return nodes_of(rows.sparkSession, rows._jdf.queryExecution().analyzed()).of(_RDD)


@dataclass(slots=True)
class _PlanWalk:
    inputs: tuple[str, ...]
    leaves: Mapping[int, str]
    tracing: Tracing = field(default_factory=Tracing)
    # Of WITH, and of recursive queries under way
    _common: dict[int, _NodeOutput] = field(default_factory=dict)

    # --- plans ------------------------------------------------------------------------------------

    def rows(self, node: PlanNode, outer: Mapping[int, Value]) -> _NodeOutput:
        """`outer`: the attributes of the surrounding query that a query within an expression
        sees."""
        match node.kind:
            case "WithCTE":
                return self._with(node, outer)
            case "CTERelationRef" | "UnionLoopRef":
                return self._reference(node)
            case "UnionLoop":
                return self._loop(node, outer)
        below = [self.rows(child, outer) for child in node.children]
        if not below:
            return self._leaf(node)
        visible = {**outer, **_all_values(below)}
        for name, step in _DECIDING.get(node.kind, ()):
            self.tracing.note(
                step, (self.value(expression, visible) for expression in node.trees(name))
            )
        return self._above(node, below, visible)

    def _above(
        self, node: PlanNode, below: Sequence[_NodeOutput], visible: Mapping[int, Value]
    ) -> _NodeOutput:
        first = below[0]
        match node.kind:
            case "Project" | "Aggregate":
                return self._named(node.trees(_NAMED[node.kind]), visible)
            case "Window":
                return _joined((first, self._named(node.trees(_NAMED[node.kind]), visible)))
            case "Generate":
                return self._generated(node, first, visible)
            case "Expand":
                return self._expanded(node, visible)
            case "Union":
                return _side_by_side(below)
            case "Except" | "Intersect":
                self.tracing.note(
                    "FILTER",
                    (child_rows.values[id] for child_rows in below for id in child_rows.ids),
                )
                return first if node.kind == "Except" else _side_by_side(below)
            case "Distinct":
                self.tracing.note("GROUP_BY", (first.values[id] for id in first.ids))
                return first
            case "Join" | "LateralJoin" | "AsOfJoin":
                return self._join(node, below, visible)
            case _ if node.fields.get("output"):
                return self._opaque(node, below)
            case _ if len(below) == 1:  # rows of those below, as they are
                return first
            case _:
                raise UnreadablePlan(node.kind)

    def _with(self, node: PlanNode, outer: Mapping[int, Value]) -> _NodeOutput:
        *definitions, plan = node.children
        for definition in definitions:
            self._common[int(definition.fields["id"])] = self.rows(definition.children[0], outer)
        return self.rows(plan, outer)

    def _reference(self, node: PlanNode) -> _NodeOutput:
        number = node.fields["cteId" if node.kind == "CTERelationRef" else "loopId"]
        return _renumbered(self._common[int(number)], node.trees("output"))

    def _loop(self, node: PlanNode, outer: Mapping[int, Value]) -> _NodeOutput:
        """A recursive query: its anchor, and then the recursion, until no new origin comes."""
        anchor, recursion = node.children
        number = int(node.fields["id"])
        loop_rows = self.rows(anchor, outer)
        numbers = [int(attribute["id"]) for attribute in node.fields["outputAttrIds"]]
        loop_rows = _NodeOutput(
            tuple(numbers),
            {new: loop_rows.values[id] for new, id in zip(numbers, loop_rows.ids, strict=True)},
        )
        for _ in range(_ROUNDS):
            self._common[number] = loop_rows
            next_rows = _side_by_side((loop_rows, self.rows(recursion, outer)))
            if next_rows == loop_rows:
                break
            loop_rows = next_rows
        return loop_rows

    def _leaf(self, node: PlanNode) -> _NodeOutput:
        columns = node.trees("output")
        if node.kind in _CONSTANT:
            return _NodeOutput(tuple(c.id for c in columns), {c.id: NOTHING for c in columns})
        name = self.leaves.get(columns[0].id) if columns else None
        if name is not None:
            own = {
                c.id: Value({(name, str(c.fields["name"])): frozenset({"IDENTITY"})})
                for c in columns
            }
            return _NodeOutput(tuple(own), own)
        if columns and self.inputs:
            self.tracing.over_reported.add(
                "rows that the code made itself (of an RDD, or a list) may be of any input"
            )
        return _NodeOutput(
            tuple(c.id for c in columns), {c.id: all_columns(self.inputs) for c in columns}
        )

    def _named(self, expressions: Sequence[PlanNode], visible: Mapping[int, Value]) -> _NodeOutput:
        return _NodeOutput(
            tuple(expression.id for expression in expressions),
            {expression.id: self.value(expression, visible) for expression in expressions},
        )

    def _generated(
        self, node: PlanNode, below: _NodeOutput, visible: Mapping[int, Value]
    ) -> _NodeOutput:
        made = self.value(node.inner("generator"), visible).through("TRANSFORMATION")
        dropped = {below.ids[int(at)] for at in node.fields.get("unrequiredChildIndex") or ()}
        remaining = tuple(id for id in below.ids if id not in dropped)
        new = {column.id: made for column in node.trees("generatorOutput")}
        return _NodeOutput((*remaining, *new), {**below.values, **new})

    def _expanded(self, node: PlanNode, visible: Mapping[int, Value]) -> _NodeOutput:
        """The same rows several times, each time with other columns (ROLLUP, UNPIVOT)."""
        columns, rounds = node.trees("output"), node.lists("projections")
        values = {
            column.id: merged(self.value(projection[at], visible) for projection in rounds)
            for at, column in enumerate(columns)
        }
        return _NodeOutput(tuple(values), values)

    def _join(
        self, node: PlanNode, below: Sequence[_NodeOutput], visible: Mapping[int, Value]
    ) -> _NodeOutput:
        sides = list(below)
        if node.kind == "LateralJoin":
            sides.append(self.rows(node.inner("right").inner("plan"), visible))
        kind = str(node.fields.get("joinType"))
        if any(word in kind for word in _LEFT_ALONE):
            return _NodeOutput(sides[0].ids, _all_values(sides))
        return _joined(sides)

    def _opaque(self, node: PlanNode, below: Sequence[_NodeOutput]) -> _NodeOutput:
        """A node that gives attributes of its own, without their origins."""
        columns = node.trees("output")
        values_below = _all_values(below)
        made = [c for c in columns if c.id not in values_below]
        if made:
            message = (
                f"{node.kind}: each column that it gives is said to come of all that it is given"
            )
            self.tracing.over_reported.add(message)
        merged_value = merged(
            child_rows.values[id] for child_rows in below for id in child_rows.ids
        ).through("TRANSFORMATION")
        values = {c.id: values_below.get(c.id, merged_value) for c in columns}
        return _NodeOutput(tuple(values), values)

    # --- expressions ------------------------------------------------------------------------------

    def value(self, node: PlanNode, visible: Mapping[int, Value]) -> Value:
        match node.kind:
            case "AttributeReference":
                return visible[node.id]
            case "Alias":
                return self.value(node.children[0], visible)
            case "OuterReference":  # a leaf for Spark, with the attribute beside it
                return self.value(node.inner("e"), visible)
            case "CreateNamedStruct":
                return self._struct(node, visible)
            case "GetStructField":
                return self._member(node, visible)
            case "CaseWhen" | "If":
                return self._conditional(node, visible)
            case "AggregateExpression":
                function, *conditions = (self.value(child, visible) for child in node.children)
                return merged(
                    [
                        function.through("AGGREGATION"),
                        *(c.through("CONDITIONAL") for c in conditions),
                    ]
                )
            case "WindowExpression":
                function, spec = (self.value(child, visible) for child in node.children)
                if node.children[0].kind in _OF_ORDER:  # they hold the order once more
                    function = NOTHING
                return merged([function.through("TRANSFORMATION"), spec.through("WINDOW")])
            case "Exists":  # what decides is noted within
                self.rows(node.inner("plan"), visible)
                return NOTHING
            case "ScalarSubquery" | "ListQuery" | "LateralSubquery":
                subquery = self.rows(node.inner("plan"), visible)
                return merged(subquery.values[id] for id in subquery.ids).through("TRANSFORMATION")
            case _:
                return merged(self.value(child, visible) for child in node.children).through(
                    "TRANSFORMATION"
                )

    def _struct(self, node: PlanNode, visible: Mapping[int, Value]) -> Value:
        parts = [self.value(child, visible) for child in node.children[1::2]]
        together = merged(parts).through("TRANSFORMATION")
        return Value(together.origins, {str(at): part for at, part in enumerate(parts)})

    def _member(self, node: PlanNode, visible: Mapping[int, Value]) -> Value:
        of = self.value(node.children[0], visible)
        member = of.members.get(str(node.fields["ordinal"]))
        return of.through("TRANSFORMATION") if member is None else member

    def _conditional(self, node: PlanNode, visible: Mapping[int, Value]) -> Value:
        values = [self.value(child, visible) for child in node.children]
        pairs = len(values) - len(values) % 2
        conditions = values[:1] if node.kind == "If" else values[:pairs:2]
        results = values[1:] if node.kind == "If" else [*values[1:pairs:2], *values[pairs:]]
        return merged(
            [
                *(c.through("CONDITIONAL") for c in conditions),
                *(r.through("TRANSFORMATION") for r in results),
            ]
        )


def _all_values(rows: Iterable[_NodeOutput]) -> dict[int, Value]:
    return {id: value for part in rows for id, value in part.values.items()}


def _joined(sides: Sequence[_NodeOutput]) -> _NodeOutput:
    return _NodeOutput(tuple(id for side in sides for id in side.ids), _all_values(sides))


def _side_by_side(sides: Sequence[_NodeOutput]) -> _NodeOutput:
    """Rows of several, one after another: a column is known by the number that it has in the
    first."""
    first = sides[0]
    values = {
        id: merged(side.values[side.ids[at]] for side in sides)
        if len(sides) > 1
        else first.values[id]
        for at, id in enumerate(first.ids)
    }
    return _NodeOutput(first.ids, values)


def _renumbered(rows: _NodeOutput, columns: Sequence[PlanNode]) -> _NodeOutput:
    """The same rows where they are referred to."""
    if len(columns) != len(rows.ids):
        raise UnreadablePlan("a reference with other columns")
    values = {column.id: rows.values[id] for column, id in zip(columns, rows.ids, strict=True)}
    return _NodeOutput(tuple(values), values)
