"""The wall between users' SQL and everything beyond its task's inputs: files, tables, scripts,
classes of the JVM.

Spark's own plans are looked at, so another parser's reading of a text does not matter. First the
parsed plan, of which nothing has been looked up yet: it must be a query, over views that were
given, with functions that read nothing else. Then the analysed plan, before anything runs: its
relations must be those of the views. Anything unknown here is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from dataplane.contract.sql_words import (
    SQL_CONFIGURED,
    SQL_DEFAULT,
    SQL_DESCRIBED,
    SQL_FORBIDDEN,
    SQL_PATH_OPTIONS,
    SQL_TABLE_FUNCTIONS,
)
from dataplane.spark.plan_trees import (
    EXPRESSIONS,
    QUERIES,
    Nodes,
    classes,
    expressions_of,
    items,
    kind_of,
    nodes_of,
    parts_of,
)
from dataplane.spark.spark_session import active
from dataplane.task_failures import TaskFailure

DIRECT_READ: Final = "direct-read"
_ANALYSIS: Final = "org.apache.spark.sql.catalyst.analysis."
_LOGICAL: Final = "org.apache.spark.sql.catalyst.plans.logical."

_RELATION: Final = f"{_ANALYSIS}UnresolvedRelation"
_WITH_SCHEMA: Final = tuple(classes(EXPRESSIONS, "CsvToStructs JsonToStructs XmlToStructs"))
_TABLE_FUNCTION: Final = f"{_ANALYSIS}UnresolvedTableValuedFunction"
_CALL: Final = f"{_ANALYSIS}UnresolvedFunction"
_CALLS: Final = (_CALL, f"{_ANALYSIS}UnresolvedGenerator")
_LITERAL: Final = f"{EXPRESSIONS}Literal"

# Nodes that only compute with the rows of those below them, or make rows of constants.
_COMPUTING: Final = (
    classes(
        _LOGICAL,
        """
    Aggregate CTERelationDef CTERelationRef Deduplicate Distinct Except Expand Filter Generate GlobalLimit Intersect
    Join LateralJoin LimitAll LocalLimit LocalRelation NearestByJoin Offset OneRowRelation Pivot Project Range
    RebalancePartitions Repartition RepartitionByExpression ResolvedHint Sample Sort Subquery SubqueryAlias Tail
    Transpose Union UnionLoop UnionLoopRef Unpivot UnresolvedHint View Window WithCTE
    """,
    )
    | classes(
        _ANALYSIS,
        """
    ResolvedInlineTable UnresolvedHaving UnresolvedInlineTable UnresolvedQualify UnresolvedSubqueryColumnAliases
    UnresolvedTVFAliases
    """,
    )
    | {f"{EXPRESSIONS}PipeOperator"}
)
_PARSED: Final = _COMPUTING | {_RELATION, _TABLE_FUNCTION}
_GIVEN: Final = classes(
    "org.apache.spark.sql.execution.",
    "LogicalRDD datasources.LogicalRelation datasources.LogicalRelationWithTable",
)
_ANALYSED: Final = _COMPUTING | _GIVEN
_HIDING: Final = classes(_ANALYSIS, "ExpressionWithUnresolvedIdentifier") | classes(
    EXPRESSIONS, "FunctionTableSubqueryArgumentExpression VariableReference"
)
_OUTSIDE: Final = (
    _HIDING
    | classes(
        EXPRESSIONS,
        """
        ApplyFunctionExpression CallMethodViaReflection InputFileBlockLength InputFileBlockStart InputFileName
        PythonUDAF PythonUDF PythonUDTF ScalaUDF TryReflect UnresolvedPolymorphicPythonUDTF
        """,
    )
    | classes("org.apache.spark.sql.execution.aggregate.", "ScalaAggregator ScalaUDAF")
    | classes(
        "org.apache.spark.sql.hive.",
        "HiveGenericUDF HiveGenericUDTF HiveSimpleUDF HiveUDAFFunction",
    )
    | classes(_ANALYSIS, "SQLFunctionExpression SQLScalarFunction")
)


def check_parsed(session: SparkSession, plan: JavaObject, views: Iterable[str]) -> None:
    """Raises TaskFailure for a parsed plan that is no query over these views. Nothing is looked
    up."""
    nodes = nodes_of(session, _substituted(session, plan))
    if (strange := nodes.first_beside(_PARSED)) is not None:
        raise _refused(strange, f"no query holds a {_short(strange)}")
    view_names = {name.lower() for name in views}
    for relation in nodes.of(_RELATION):
        _check_name(relation, view_names)
    for function in nodes.of(_TABLE_FUNCTION):
        name = ".".join(items(function.name())).lower()
        if name not in SQL_TABLE_FUNCTIONS:
            raise _refused(
                function, f"{name}() reads from outside of the dataflow, or is not known not to"
            )
    _check_calls(expressions_of(session, nodes))


def check_condition(session: SparkSession, text: str) -> None:
    """Raises TaskFailure, or what Spark does, for text that is no condition on one row."""
    with active(session):  # under whose settings a parser works
        tree = session._jsparkSession.sessionState().sqlParser().parseExpression(text)
    parts = parts_of(session, tree)
    if (query := next(iter(parts.of(*QUERIES)), None)) is not None:
        raise _refused(query, "a condition looks at one row, and reads no other")
    _check_calls(parts)


def check_analysed(rows: DataFrame, views: Iterable[DataFrame]) -> None:
    """Raises TaskFailure where the plan has a relation that is in none of the views, or calls a
    function that no SQL may."""
    session = rows.sparkSession
    nodes = nodes_of(session, _analysed(rows))
    if (strange := nodes.first_beside(_ANALYSED)) is not None:
        raise _refused(strange, f"no query holds a {_short(strange)}")
    _check_resolved(expressions_of(session, nodes))
    relations = nodes.of(*_GIVEN)
    of_views = (
        [
            relation_of_view.canonicalized()
            for view in views
            for relation_of_view in _relations(view)
        ]
        if relations
        else []
    )
    for relation in relations:
        same = relation.canonicalized()
        if not any(same.equals(relation_of_view) for relation_of_view in of_views):
            raise _refused(relation, "the query reads a relation that is no input of the task")


def check_filter(rows: DataFrame) -> None:
    """Raises TaskFailure where the condition that was put over rows last calls a function that no
    SQL may."""
    _check_resolved(parts_of(rows.sparkSession, _analysed(rows).condition()))


def _relations(view: DataFrame) -> list[JavaObject]:
    return nodes_of(view.sparkSession, _analysed(view)).of(*_GIVEN)


def _analysed(rows: DataFrame) -> JavaObject:
    return rows._jdf.queryExecution().analyzed()


def _substituted(session: SparkSession, plan: JavaObject) -> JavaObject:
    """The plan with common table expressions and windows in place of their names, as Spark begins
    its analysis."""
    jvm = session._jvm
    assert jvm is not None
    with active(session):
        named = jvm.org.apache.spark.sql.catalyst.analysis.CTESubstitution.apply(plan)
        return session._jsparkSession.sessionState().analyzer().WindowsSubstitution().apply(named)


# --- names ----------------------------------------------------------------------------------------


def _check_name(relation: JavaObject, view_names: Set[str]) -> None:
    parts = [str(part) for part in items(relation.multipartIdentifier())]
    name = ".".join(parts)
    if len(parts) == 1 and parts[0].lower() in view_names:
        if relation.isStreaming() or not relation.options().isEmpty():
            raise _refused(
                relation, f"{name} is read as it is: not as a stream, and without options"
            )
        return
    if len(parts) == 1 and parts[0].isidentifier():
        raise TaskFailure(
            "TABLE_OR_VIEW_NOT_FOUND", f"{name} is no input of the task", offset=_offset(relation)
        )
    raise _refused(relation, f"{name} is no input of the task, and a query reads nothing else")


def _check_calls(expressions: Nodes) -> None:
    _refuse(expressions, _HIDING)
    for call in expressions.of(*_CALLS):
        name = str(call.prettyName()).rpartition(".")[2].strip("`").lower()
        if name in SQL_FORBIDDEN:
            raise _refused(call, f"{name}() reads from outside of the dataflow")
        if name in SQL_CONFIGURED:
            _check_options(call, name)


def _check_options(call: JavaObject, name: str) -> None:
    """After its first argument, such a call has constants only: an option, or a text, can name a
    file."""
    texts = 0
    for argument in items(call.arguments())[1:]:
        if kind_of(argument) == _LITERAL:
            texts += argument.dataType().typeName() == "string"
        elif not _is_schema(argument) and not _is_plain_map(argument):
            raise _refused(
                call,
                f"{name}() takes its schema and options as constants here: map('name', 'value')",
            )
    if texts > 1 and name in SQL_DESCRIBED:
        raise _refused(call, f"{name}() would read a file of descriptors")


def _is_schema(argument: JavaObject) -> bool:
    """A call that is looked at by itself."""
    return kind_of(argument) == _CALL and str(argument.prettyName()).lower().startswith(
        "schema_of_"
    )


def _is_plain_map(argument: JavaObject) -> bool:
    if kind_of(argument) != _CALL or str(argument.prettyName()).lower() != "map":
        return False
    parts = items(argument.arguments())
    return all(map(_is_plain, parts))


def _is_plain(part: JavaObject) -> bool:
    return kind_of(part) == _LITERAL and str(part.value()).lower() not in SQL_PATH_OPTIONS


# --- meanings -------------------------------------------------------------------------------------


def _check_resolved(expressions: Nodes) -> None:
    _refuse(expressions, _OUTSIDE)
    for call in expressions.of(*_WITH_SCHEMA):
        if SQL_DEFAULT in str(call.schema().json()).lower():
            raise _refused(call, "a default in a schema is SQL of its own, which is not looked at")
    for call in expressions.of(f"{EXPRESSIONS}XmlToStructs", f"{EXPRESSIONS}SchemaOfXml"):
        names = str(call.options().keysIterator().mkString("\0")).lower().split("\0")
        if SQL_PATH_OPTIONS & {*names}:
            raise _refused(call, "an option of from_xml names a file")


def _refuse(expressions: Nodes, kinds: frozenset[str]) -> None:
    if (expression := next(iter(expressions.of(*kinds)), None)) is not None:
        raise _refused(expression, f"no query may call {_short(expression)}")


def _short(node: JavaObject) -> str:
    return kind_of(node).rpartition(".")[2].rstrip("$")


def _refused(node: JavaObject, message: str) -> TaskFailure:
    return TaskFailure(DIRECT_READ, message, offset=_offset(node))


def _offset(node: JavaObject) -> int | None:
    start = node.origin().startIndex()
    return int(start.get()) if start.isDefined() else None
