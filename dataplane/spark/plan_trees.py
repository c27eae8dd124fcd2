"""The nodes of a plan of Spark's, by a few calls of the JVM for a whole plan rather than one for
each node.

Functions of the JVM's own go through the trees there, made from handles of methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession


def classes(package: str, names: str) -> frozenset[str]:
    return frozenset(package + name for name in names.split())


EXPRESSIONS: Final = "org.apache.spark.sql.catalyst.expressions."
QUERIES: Final = classes(EXPRESSIONS, "Exists InSubquery LateralSubquery ListQuery ScalarSubquery")


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes of a plan, or expressions, as a sequence of Scala's, and the names of their classes in
    that order."""

    all: JavaObject
    kinds: tuple[str, ...]

    def of(self, *kinds: str) -> list[JavaObject]:
        return [self.all.apply(at) for at, kind in enumerate(self.kinds) if kind in kinds]

    def first_beside(self, allowed: frozenset[str]) -> JavaObject | None:
        return next(
            (self.all.apply(at) for at, kind in enumerate(self.kinds) if kind not in allowed), None
        )


def nodes_of(session: SparkSession, plan: JavaObject) -> Nodes:
    """All nodes of a plan, those of queries within its expressions too."""
    made = _functions(session)
    return _nodes(plan.subqueriesAll().prepended(plan).flatMap(made.parts), made)


def expressions_of(session: SparkSession, nodes: Nodes) -> Nodes:
    """All expressions in these nodes, and within each other."""
    made = _functions(session)
    return _nodes(nodes.all.flatMap(made.expressions).flatMap(made.parts), made)


def parts_of(session: SparkSession, tree: JavaObject) -> Nodes:
    """The nodes of one tree, without those of queries within it."""
    made = _functions(session)
    return _nodes(made.parts.apply(tree), made)


def kind_of(node: JavaObject) -> str:
    return str(node.getClass().getName())


def items(sequence: JavaObject) -> list[JavaObject]:
    return [sequence.apply(at) for at in range(sequence.size())]


@dataclass(frozen=True, slots=True)
class _Functions:
    """Functions of Scala."""

    kind: JavaObject
    parts: JavaObject
    expressions: JavaObject


def _nodes(all: JavaObject, made: _Functions) -> Nodes:
    return Nodes(all, tuple(str(all.map(made.kind).mkString(" ")).split()))


# By gateway: a process may see several JVMs
_MADE: WeakKeyDictionary[object, _Functions] = WeakKeyDictionary()


def _functions(session: SparkSession) -> _Functions:
    gateway = session.sparkContext._gateway
    if gateway not in _MADE:
        _MADE[gateway] = _made(session)
    return _MADE[gateway]


def _made(session: SparkSession) -> _Functions:
    gateway, load = (
        session.sparkContext._gateway,
        session._jsparkSession.getClass().getClassLoader().loadClass,
    )
    assert gateway is not None
    java, scala = gateway.jvm.java, gateway.jvm.scala.jdk.javaapi.FunctionConverters
    handles, types = java.lang.invoke.MethodHandles, java.lang.invoke.MethodType
    lookup, function = handles.publicLookup(), load("java.util.function.Function")
    sequence = load("scala.collection.immutable.Seq")

    def of_scala(handle: JavaObject) -> JavaObject:
        made = java.lang.invoke.MethodHandleProxies.asInterfaceInstance(function, handle)
        return scala.asScalaFromFunction(made)

    tree, plan = (
        load(f"org.apache.spark.sql.catalyst.{name}")
        for name in ("trees.TreeNode", "plans.QueryPlan")
    )
    itself = gateway.new_array(gateway.jvm.java.lang.Object, 1)
    itself[0] = scala.asScalaFromFunction(java.util.function.Function.identity())
    mapped = lookup.findVirtual(tree, "map", types.methodType(sequence, load("scala.Function1")))
    of_object = lookup.findVirtual(
        load("java.lang.Object"), "getClass", types.methodType(load("java.lang.Class"))
    )
    named = lookup.findVirtual(
        load("java.lang.Class"), "getName", types.methodType(load("java.lang.String"))
    )
    return _Functions(
        kind=of_scala(handles.filterReturnValue(of_object, named)),
        parts=of_scala(handles.insertArguments(mapped, 1, itself)),
        expressions=of_scala(lookup.findVirtual(plan, "expressions", types.methodType(sequence))),
    )
