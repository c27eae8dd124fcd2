"""Whether a transform gives for the rows of many keys at once what it gives for each key alone:
a proof on the analysed plan of its result.

Each node is looked at after those below it. Attributes that hold a key are followed by the numbers
that Spark gave them:

    an input that is read by key      -> its key columns hold the key
    an input that is read whole       -> the same rows for every key
    Project Filter Sort Generate ...  -> row by row
    Aggregate Window Deduplicate Join -> proven if the key is among what they group or join by
    a tumbling window of a time       -> its start holds the key that the time holds, if they have
                                         the same granule

Anything without a rule ends the proof: LIMIT, ROLLUP, subqueries, functions of Python that see more
than one row, and aggregates whose result depends on the order of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from dataplane.contract.jobs import Logic
from dataplane.contract.key_values import utc_granule_s
from dataplane.spark.plan_json import PlanNode, plan_of
from dataplane.spark.plan_lineage import input_leaves
from dataplane.spark.plan_trees import EXPRESSIONS, QUERIES, classes, expressions_of, nodes_of
from dataplane.spark.plan_windows import start_of_window, struct_of_start

# For each part, the attributes that hold it; ~id: the start of the window that is the attribute `id`
Keys: TypeAlias = tuple[frozenset[int], ...]

_AGGREGATES: Final = f"{EXPRESSIONS}aggregate."
_WITHOUT_ORDER: Final = classes(
    _AGGREGATES,
    """
    AggregateExpression Average BitAndAgg BitOrAgg BitXorAgg BoolAnd BoolOr Corr Count CountIf CovPopulation
    CovSample HyperLogLogPlusPlus Kurtosis Max MaxBy Median Min MinBy Percentile Skewness StddevPop
    StddevSamp Sum VariancePop VarianceSamp
    """,
)
_PYTHON: Final = f"{EXPRESSIONS}Python"
_ROW_WISE: Final = (100, 101)  # PythonEvalType: of one row, without and with Arrow
_SAME_ROWS: Final = classes(
    "",
    """
    Filter RebalancePartitions Repartition RepartitionByExpression ResolvedHint Sort SubqueryAlias View
    """,
)
_LIMITS: Final = frozenset({"GlobalLimit", "LocalLimit"})
_CONSTANT: Final = frozenset({"LocalRelation", "OneRowRelation", "Range"})
_EQUAL: Final = frozenset({"EqualTo", "EqualNullSafe"})
# The key is that of the left side
_OF_LEFT: Final = frozenset({"LeftAnti", "LeftOuter", "LeftSemi"})
_PROVEN_JOINS: Final = _OF_LEFT | {"Cross", "Inner", "RightOuter"}


class NoProofByKey(ValueError):
    """A node that the proof does not go through."""


@dataclass(frozen=True, slots=True)
class _KeyedRows:
    """The attributes of a node, in order. `keys` None: the same rows for every key."""

    ids: tuple[int, ...]
    keys: Keys | None = None


def is_proven_by_key(rows: DataFrame, inputs: Mapping[str, DataFrame], job: Logic) -> bool:
    """Whether these rows over these inputs are a union over keys, and hold the key. Runs nothing.

    False also for a plan that cannot be read.
    """
    try:
        plan = rows._jdf.queryExecution().analyzed()
        if not plan.deterministic() or not _has_proven_expressions(rows, plan):
            return False
        return _holds_key(_KeyProof(input_leaves(rows, inputs), job).rows(plan_of(plan)), rows, job)
    except Exception:  # noqa: BLE001  # of the JVM, of a node in another form, of a plan that is too deep
        return False


def _holds_key(proven: _KeyedRows, rows: DataFrame, job: Logic) -> bool:
    if proven.keys is None:
        return False
    names = [_name(name, job) for name in rows.columns]
    id_by_name = dict(zip(names, proven.ids, strict=True))
    parts = zip(job["key"], proven.keys, strict=True)
    return all(id_by_name[_name(part["column"], job)] in holding for part, holding in parts)


def _has_proven_expressions(rows: DataFrame, plan: JavaObject) -> bool:
    session = rows.sparkSession
    expressions = expressions_of(session, nodes_of(session, plan))
    for kind in {*expressions.kinds}:
        if kind in QUERIES:
            return False
        if kind.startswith(_AGGREGATES) and kind not in _WITHOUT_ORDER:
            return False
        if kind.startswith(_PYTHON) and kind != f"{_PYTHON}UDF":
            return False
    functions = expressions.of(f"{_PYTHON}UDF")
    return all(function.evalType() in _ROW_WISE for function in functions)


def _name(name: str, job: Logic) -> str:
    return name if job["spark"]["case_sensitive"] else name.lower()


@dataclass(frozen=True, slots=True)
class _KeyProof:
    leaves: Mapping[int, str]
    job: Logic

    def rows(self, node: PlanNode) -> _KeyedRows:
        """Raises NoProofByKey."""
        below = [self.rows(child) for child in node.children]
        if not below:
            return self._leaf(node)
        first = below[0]
        match node.kind:
            case kind if kind in _SAME_ROWS:
                return first
            case kind if kind in _LIMITS and first.keys is None:
                return first
            case "Project":
                return self._named(first, node.trees("projectList"))
            case "Aggregate":
                _check_grouped(node, first, _ids(node.trees("groupingExpressions")))
                return self._named(first, node.trees("aggregateExpressions"))
            case "Window":
                _check_grouped(node, first, _ids(node.trees("partitionSpec")))
                return _with_columns(first, node.trees("windowExpressions"))
            case "Generate":
                return _with_columns(_required(first, node), node.trees("generatorOutput"))
            case "Distinct":
                _check_grouped(node, first, first.ids)
                return first
            case "Deduplicate":
                return _deduplicated(node, first)
            case "Union":
                return _union(node, below)
            case "Join":
                return _join(node, *below)
        raise NoProofByKey(node.kind)

    def _leaf(self, node: PlanNode) -> _KeyedRows:
        columns = node.trees("output")
        ids = tuple(column.id for column in columns)
        if node.kind in _CONSTANT:
            return _KeyedRows(ids)
        input_job = self.job["inputs"][self.leaves[ids[0]]]
        if input_job["mode"] == "all":
            return _KeyedRows(ids)
        # With a reach, a task has rows of other keys
        if input_job["mode"] != "by" or "reach" in input_job:
            raise NoProofByKey(node.kind)
        id_by_name = {str(c.fields["name"]): c.id for c in columns}
        parts = zip(input_job["key"], self.job["key"], strict=True)
        if any(_unit(part) != _unit(own) for part, own in parts):
            raise NoProofByKey(node.kind)
        return _KeyedRows(
            ids, tuple(frozenset({id_by_name[part["column"]]}) for part in input_job["key"])
        )

    def _named(self, rows: _KeyedRows, expressions: Sequence[PlanNode]) -> _KeyedRows:
        """Columns that are made of those below."""
        ids = tuple(e.id for e in expressions)
        if rows.keys is None:
            return _KeyedRows(ids)
        timezone = self.job["spark"]["timezone"]
        parts = zip(rows.keys, self.job["key"], strict=True)
        return _KeyedRows(
            ids,
            tuple(
                frozenset(_holding(expressions, ids, utc_granule_s(part["granule"], timezone)))
                for ids, part in parts
            ),
        )


def _holding(
    expressions: Sequence[PlanNode], below: frozenset[int], granule_s: int
) -> Iterator[int]:
    """Those of the named expressions that hold a part of the key, as `below` does: columns that are
    only renamed, windows of a time, and their starts."""
    for expression in expressions:
        source = _unaliased(expression)
        if source.kind == "AttributeReference":
            if source.id in below:
                yield expression.id
            if ~source.id in below:
                yield ~expression.id
        elif below.intersection(_ids([source])):
            yield expression.id
        else:
            start = start_of_window(source)
            if start is not None and start.time in below and start.lies_within(granule_s):
                yield ~expression.id


def _unit(part: Mapping[str, object]) -> tuple[object, ...]:
    return part["name"], part["granule"], part["buckets"]


def _ids(expressions: Sequence[PlanNode]) -> tuple[int, ...]:
    """Numbers of the attributes, and of the starts of windows, that rows with the same values of
    these expressions have the same values of."""
    ids: list[int] = []
    for expression in expressions:
        if expression.kind == "AttributeReference":
            ids += (expression.id, ~expression.id)
        elif (struct := struct_of_start(expression)) is not None:
            ids.append(~struct)
    return tuple(ids)


def _check_grouped(node: PlanNode, rows: _KeyedRows, ids: Sequence[int]) -> None:
    if rows.keys is not None and not all(part.intersection(ids) for part in rows.keys):
        raise NoProofByKey(node.kind)


def _unaliased(expression: PlanNode) -> PlanNode:
    return expression.children[0] if expression.kind == "Alias" else expression


def _with_columns(rows: _KeyedRows, columns: Sequence[PlanNode]) -> _KeyedRows:
    return _KeyedRows((*rows.ids, *(column.id for column in columns)), rows.keys)


def _required(rows: _KeyedRows, node: PlanNode) -> _KeyedRows:
    dropped = {int(at) for at in node.fields.get("unrequiredChildIndex") or ()}
    return _KeyedRows(tuple(id for at, id in enumerate(rows.ids) if at not in dropped), rows.keys)


def _deduplicated(node: PlanNode, rows: _KeyedRows) -> _KeyedRows:
    """By all columns: else the order of rows decides which one remains."""
    if not {*rows.ids}.issubset(_ids(node.trees("keys"))):
        raise NoProofByKey(node.kind)
    _check_grouped(node, rows, rows.ids)
    return rows


def _union(node: PlanNode, below: Sequence[_KeyedRows]) -> _KeyedRows:
    """A side without keys gives its rows for each key: together they would be too few."""
    first, keys_of_sides = below[0], [rows.keys for rows in below if rows.keys is not None]
    if not keys_of_sides:
        return first
    if len(keys_of_sides) < len(below) or len({*first.ids}) < len(first.ids):
        raise NoProofByKey(node.kind)
    places = [
        frozenset.intersection(*(_places(rows, part) for rows in below))
        for part in range(len(keys_of_sides[0]))
    ]
    return _KeyedRows(first.ids, tuple(frozenset(first.ids[at] for at in ats) for ats in places))


def _places(rows: _KeyedRows, part: int) -> frozenset[int]:
    assert rows.keys is not None
    return frozenset(at for at, id in enumerate(rows.ids) if id in rows.keys[part])


def _join(node: PlanNode, left: _KeyedRows, right: _KeyedRows) -> _KeyedRows:
    kind = str(node.fields["joinType"]["object"]).rpartition(".")[2].rstrip("$")
    ids = left.ids if kind in ("LeftSemi", "LeftAnti") else (*left.ids, *right.ids)
    if left.keys is None and right.keys is None:
        return _KeyedRows(ids)
    if left.keys is not None and right.keys is not None:
        _check_equal(node, left.keys, right.keys)
    sides = [left] if kind in _OF_LEFT else [right] if kind == "RightOuter" else [left, right]
    keys_of_sides = [side.keys for side in sides if side.keys is not None]
    # A side without keys that no row of the other has to match would come again with each key
    if kind not in _PROVEN_JOINS or not keys_of_sides:
        raise NoProofByKey(node.kind)
    return _KeyedRows(
        ids, tuple(frozenset.union(*of_part) for of_part in zip(*keys_of_sides, strict=True))
    )


def _check_equal(node: PlanNode, left: Keys, right: Keys) -> None:
    """The condition of a join of two inputs by key has the equality of all parts."""
    pairs = [
        {*_ids(condition.children)}
        for condition in _conjuncts(node.trees("condition"))
        if condition.kind in _EQUAL
    ]
    for of_left, of_right in zip(left, right, strict=True):
        if not any(pair & of_left and pair & of_right for pair in pairs):
            raise NoProofByKey(node.kind)


def _conjuncts(conditions: Sequence[PlanNode]) -> Iterator[PlanNode]:
    for condition in conditions:
        if condition.kind == "And":
            yield from _conjuncts(condition.children)
        else:
            yield condition
