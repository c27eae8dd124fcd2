"""Topics with `late: drop`, `quarantine` or `fail` written out: a read component with all messages,
`<name>_messages`, and a transform that takes the late ones out.

    orders: {read: {connector: kafka, ..., event_time: {column: at}, late: drop}}

    orders_messages: {read: {connector: kafka, ..., event_time: {column: at}, late: keep}}
    orders:
      transform: {sql: SELECT * FROM orders_messages}
      expect: [{name: late, late: {column: at}, on_fail: drop}]

So messages are read once, late ones too, and another delay reads none again.
"""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.core.blueprint import defaults
from controlplane.core.blueprint.cdc_expansion import is_name_refused
from controlplane.core.blueprint.event_time import EVENT_TIME, KEPT, LATE
from controlplane.core.blueprint.trees import Pair, entries_at, only, replaced, text_at, without
from controlplane.core.blueprint.value_kinds import Reading
from controlplane.core.blueprint.yaml_nodes import BrokenNode, Entries, Items, Node, Scalar

BESIDE = "_messages"
EXPECT, READ = "expect", "read"
TAKEN_OUT = ("drop", "quarantine", "fail")
OTHER_BODIES = ("transform", "write", "cdc", "distinct")


def query_of(messages: str) -> str:
    """The query of a dataset without late rows. Rows that it left out could make others late."""
    return f"SELECT * FROM {messages}"


def takes_late_rows_out(component: Node) -> bool:
    """Whether the component is to be written out. What lacks something is refused as it is."""
    read = component.get(READ) if isinstance(component, Entries) else None
    if not isinstance(read, Entries) or not isinstance(read.get(EVENT_TIME.name), Entries):
        return False
    if isinstance(component, Entries) and any(component.get(body) for body in OTHER_BODIES):
        return False
    texts = {name: _text_of(read, name) for name in ("connector", "format", LATE.name)}
    is_topic = texts["connector"] == "kafka" and texts["format"] != "raw"
    return is_topic and texts[LATE.name] in TAKEN_OUT


def _text_of(section: Entries, key: str) -> str:
    node = section.get(key)
    return node.text if isinstance(node, Scalar) else ""


def with_messages(
    name: Scalar, component: Entries, names: frozenset[str], reading: Reading
) -> Iterator[Pair]:
    """The component with all messages, and the one without late rows. `names`: those of all
    components as written."""
    read = component.get(READ)
    assert isinstance(read, Entries)
    late, rule = read.get(LATE.name), read.get(EVENT_TIME.name)
    assert isinstance(late, Scalar)
    assert rule is not None
    beside = text_at(f"{name.text}{BESIDE}", late.place)
    if is_name_refused(beside, name, names, reading):
        yield name, BrokenNode(component.place)
        return
    read_all = replaced(read, LATE.name, text_at(KEPT, late.place))
    own = entries_at(component.place, {READ: read_all})
    yield beside, Entries(own.place, (*own.entries, *only(component, defaults.KEYS).entries))
    query = text_at(query_of(beside.text), late.place)
    body = entries_at(late.place, {"transform": entries_at(late.place, {"sql": query})})
    others = without(component, (READ, EXPECT))
    expect = entries_at(late.place, {EXPECT: _expectations(component, late, rule)})
    yield name, Entries(component.place, (*body.entries, *others.entries, *expect.entries))


def _expectations(component: Entries, late: Scalar, rule: Node) -> Node:
    """Those of the component behind that of late rows: a row has the first that it fails as its
    reason."""
    own = component.get(EXPECT)
    on_time = entries_at(
        late.place, {"name": text_at(LATE.name, late.place), LATE.name: rule, "on_fail": late}
    )
    if own is None:
        return Items(late.place, (on_time,))
    return Items(own.place, (on_time, *own.items)) if isinstance(own, Items) else own
