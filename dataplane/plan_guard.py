"""What a query may read: the views that its task was given, and nothing else, whatever a parser made of the text.

The control plane refuses what it sees in the text. Here Spark itself is asked, twice. Before analysis, which would look
at files, the parsed plan may hold known kinds of nodes only, and name known tables only. After it, every leaf of the
resolved plan must be one of a view's. Does not belong here: Python transforms, whose code may do what the driver may.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from dataplane.failure import TaskFailure
from dataplane.session import under

# Kinds of nodes of a parsed query that read nothing themselves. Commands, scripts and statements are not among them.
_HARMLESS: Final = frozenset(
    {
        *("Aggregate", "Deduplicate", "Distinct", "Except", "Filter", "Generate", "GlobalLimit", "Intersect", "Join"),
        *("LateralJoin", "LocalLimit", "LocalRelation", "Offset", "OneRowRelation", "PipeOperator", "Pivot", "Project"),
        *("RebalancePartitions", "Repartition", "RepartitionByExpression", "Sample", "Sort", "SubqueryAlias", "Tail"),
        *("Union", "UnionLoop", "Unpivot", "UnresolvedHaving", "UnresolvedHint", "UnresolvedInlineTable"),
        *("UnresolvedPipeAggregateOrdinal", "UnresolvedSubqueryColumnAliases", "UnresolvedTVFAliases"),
        *("UnresolvedWith", "WithWindowDefinition", "Window"),
    }
)
_FUNCTIONS: Final = frozenset(
    {
        *("explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode", "posexplode_outer"),
        *("range", "sql_keywords", "collations", "stack", "variant_explode", "variant_explode_outer"),
    }
)
# Leaves of a resolved plan that hold their rows themselves, or stand for another part of the plan.
_OWN: Final = frozenset({"CTERelationRef", "EmptyRelation", "LocalRelation", "OneRowRelation", "Range", "UnionLoopRef"})
_XML: Final = ("from_xml", "schema_of_xml")
_XSD: Final = "rowvalidationxsdpath"  # an option of theirs that names a file
_ALL_FIELDS: Final = {"spark.sql.debug.maxToStringFields": str(1 << 30)}
# FROM csv.`/path` names a table, and there is none; ${env:HOME} is a text like others.
CLOSED: Final = {"spark.sql.runSQLOnFiles": "false", "spark.sql.variable.substitute": "false"}


# --- before analysis --------------------------------------------------------------------------------


def check_parsed(plan: JavaObject, views: Iterable[str]) -> None:
    """Raises TaskFailure for a parsed plan that is no query, or names anything but these views."""
    nodes = list(_nodes(plan))
    known = {name.lower() for name in views} | {name.lower() for name in _common(nodes)}
    for node in nodes:
        kind = _kind(node)
        if kind == "UnresolvedRelation":
            _check_name(list(_each(node.multipartIdentifier())), known)
        elif kind == "UnresolvedTableValuedFunction":
            _check_function(list(_each(node.name())))
        elif kind not in _HARMLESS:
            raise _refused(f"a query cannot hold this: {kind}")


def check_condition(session: SparkSession, text: str) -> None:
    """Raises TaskFailure for a condition that holds a query. What is no expression is left for Spark to tell."""
    jvm = session._jvm
    assert jvm is not None
    logical = jvm.org.apache.spark.sql.catalyst.plans.logical
    expression = session._jsparkSession.sessionState().sqlParser().parseExpression(text)
    filtered = logical.Filter(expression, logical.OneRowRelation())
    if not filtered.subqueriesAll().isEmpty():
        raise _refused("a condition cannot hold a query")


def _check_name(parts: list[str], known: set[str]) -> None:
    if len(parts) != 1 or parts[0].lower() not in known:
        raise _refused(f"{'.'.join(f'`{part}`' for part in parts)} is not an input of this component")


def _check_function(parts: list[str]) -> None:
    if len(parts) != 1 or parts[0].lower() not in _FUNCTIONS:
        name = ".".join(parts)
        raise _refused(f"{name}() reads from outside of the dataflow, or is not known to read only its arguments")


def _common(nodes: Iterable[JavaObject]) -> Iterator[str]:
    """The names of common table expressions, wherever they can be seen: what they hide is no view of the task."""
    for node in nodes:
        if _kind(node) == "UnresolvedWith":
            for common in _each(node.innerChildren()):
                yield common.alias()


def _nodes(plan: JavaObject) -> Iterator[JavaObject]:
    """Every node of a parsed plan, those of queries within expressions and of common table expressions, too."""
    trees = [plan]
    while trees:
        tree = trees.pop()
        trees += _each(tree.subqueriesAll())  # of this tree, and of trees within those: some come twice
        waiting = [tree]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += _each(node.children())
            if _kind(node) == "UnresolvedWith":
                trees += _each(node.innerChildren())


# --- after analysis ---------------------------------------------------------------------------------


def check_resolved(session: SparkSession, plan: JavaObject, views: Iterable[str], text: str) -> None:
    """Raises TaskFailure for a resolved plan with a leaf that none of these views has."""
    given = {_identity(session, leaf) for view in views for leaf in _leaves(_resolved(session, view))}
    for leaf in _leaves(plan):
        if _kind(leaf) not in _OWN and _identity(session, leaf) not in given:
            raise _refused(f"the query reads something that is not an input of this component ({_kind(leaf)})")
    if any(name in text.lower() for name in _XML):
        _check_schema_path(session, plan)


def _check_schema_path(session: SparkSession, plan: JavaObject) -> None:
    """Options may be put together from pieces, so they are looked at once Spark has evaluated them."""
    with under(session, _ALL_FIELDS):
        if _XSD in plan.toString().lower():
            raise _refused("from_xml with rowValidationXSDPath reads a file past the dataflow")


def _resolved(session: SparkSession, view: str) -> JavaObject:
    return session.table(f"`{view}`")._jdf.queryExecution().analyzed()


def _leaves(plan: JavaObject) -> Iterator[JavaObject]:
    for tree in (plan, *_each(plan.subqueriesAll())):
        yield from _each(tree.collectLeaves())


def _identity(session: SparkSession, leaf: JavaObject) -> tuple[str, int]:
    """What a leaf reads. A plan that names a view twice has the leaf twice, with other numbers for its columns."""
    jvm = session._jvm
    assert jvm is not None
    kind = _kind(leaf)
    read: Any = leaf
    match kind:
        case "LogicalRelation":
            read = leaf.relation()
        case "LogicalRDD":
            read = leaf.rdd()
        case "DataSourceV2Relation" | "DataSourceV2ScanRelation":
            read = leaf.table()
        case "ExternalRDD":
            read = leaf.rdd()
    return kind, jvm.java.lang.System.identityHashCode(read)


# --- of Scala ---------------------------------------------------------------------------------------


def _kind(node: JavaObject) -> str:
    name: str = node.getClass().getSimpleName()
    return name.removesuffix("$")


def _each(found: JavaObject) -> Iterator[Any]:
    iterator = found.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _refused(message: str) -> TaskFailure:
    return TaskFailure("direct-read", f"{message}; a query reads the inputs of its component and nothing else")
