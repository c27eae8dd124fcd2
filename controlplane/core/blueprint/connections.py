"""Connections and schemas by name: declared once in a blueprint, used by several components.

connections:
  warehouse: {connector: jdbc, url: secret://warehouse/url, options: {user: app}}
schemas:
  orders: "id BIGINT, amount DECIMAL(10, 2)"
components:
  orders: {read: {connection: warehouse, table: public.orders, schema: orders}}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from controlplane.core.blueprint import credentials, text_forms
from controlplane.core.blueprint.problems import BlueprintRefused, Problems, shown
from controlplane.core.blueprint.trees import key_of, merged, only, replaced, without
from controlplane.core.blueprint.value_kinds import described, report_columns
from controlplane.core.blueprint.yaml_nodes import BrokenNode, Entries, Node, Scalar, YamlDocument

CONNECTION = "connection"
CONNECTOR = "connector"
SCHEMA = "schema"
KEYS = (CONNECTOR, "url", "servers", "registry", "storage", "options")
_NAME_OF_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def connections(section: Node | None, problems: Problems) -> dict[str, Entries]:
    """The connections of a blueprint. A key that none has is reported and left out."""
    by_name: dict[str, Entries] = {}
    for key, node in _named(section, "connections", problems):
        if isinstance(node, Entries):
            credentials.report(node, problems)
            _report_keys(node, problems)
            by_name[key.text] = only(node, KEYS)
        elif not isinstance(node, BrokenNode):
            problems.add(
                node.place,
                "wrong-type",
                f"expected the keys of a connection, found {described(node)}",
            )
    return by_name


def _report_keys(connection: Entries, problems: Problems) -> None:
    if key_of(connection, CONNECTOR) is None:
        hint = "for example connector: jdbc"
        problems.add(connection.place, "missing-key", "the key 'connector' is missing", hint)
    for key, _ in connection.entries:
        if key.text not in KEYS:
            hint = problems.guess(key.text, KEYS) or f"known here: {', '.join(KEYS)}"
            problems.add(
                key.place, "unknown-key", f"a connection has no key {shown(key.text)}", hint
            )


def schemas(section: Node | None, document: YamlDocument, problems: Problems) -> dict[str, Scalar]:
    """The schemas of a blueprint by name."""
    by_name: dict[str, Scalar] = {}
    for key, node in _named(section, "schemas", problems):
        if isinstance(node, Scalar) and isinstance(node.value, str):
            report_columns(node, document, problems)
            by_name[key.text] = node
        elif not isinstance(node, BrokenNode):
            problems.add(
                node.place, "wrong-type", f"expected columns as DDL, found {described(node)}"
            )
    return by_name


def _named(section: Node | None, what: str, problems: Problems) -> tuple[tuple[Scalar, Node], ...]:
    if isinstance(section, Entries):
        for key, _ in section.entries:
            if fault := text_forms.name(key.text):
                problems.add(key.place, *fault)
        return section.entries
    if section is not None and not isinstance(section, BrokenNode):
        problems.add(
            section.place,
            "wrong-type",
            f"expected a mapping of names to {what}, found {described(section)}",
        )
    return ()


def connected(
    section: Entries,
    declared: Mapping[str, Entries],
    keys_of: Mapping[str, Collection[str]],
    problems: Problems,
) -> Entries:
    """A read or write with what its connection says, as far as the connector has such keys; its own
    keys win.

    `keys_of`: the keys of each connector. Raises BlueprintRefused where there is no such
    connection.
    """
    node = section.get(CONNECTION)
    if node is None:
        return section
    connection = _connection(node, declared, problems)
    connector = connection.get(CONNECTOR)
    own = section.get(CONNECTOR)
    if isinstance(own, Scalar) and isinstance(connector, Scalar) and own.text != connector.text:
        message = f"the connection is one of {connector.text}, not of {shown(own.text)}"
        problems.add(own.place, "conflicting-keys", message, "leave the connector out")
    keys = keys_of.get(connector.text, KEYS) if isinstance(connector, Scalar) else KEYS
    return merged(without(section, (CONNECTION,)), only(connection, keys))


def _connection(node: Node, declared: Mapping[str, Entries], problems: Problems) -> Entries:
    if isinstance(node, BrokenNode):
        raise BlueprintRefused
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        raise problems.refuse(
            node.place, "wrong-type", f"expected the name of a connection, found {described(node)}"
        )
    if node.text in declared:
        return declared[node.text]
    hint = problems.guess(node.text, declared) or "declare it below connections"
    raise problems.refuse(
        node.place, "unknown-reference", f"there is no connection {shown(node.text)}", hint
    )


def with_schema(section: Entries, declared: Mapping[str, Scalar], problems: Problems) -> Entries:
    """A read or transform whose `schema` is written out where it is a name. DDL has a type for each
    column, so a lone word is a name."""
    node = section.get(SCHEMA)
    if not isinstance(node, Scalar) or not _NAME_OF_SCHEMA.fullmatch(node.text):
        return section
    if node.text in declared:
        return replaced(section, SCHEMA, declared[node.text])
    if not declared:
        return section
    hint = (
        problems.guess(node.text, declared)
        or "declare it below schemas, or write columns: id INT, name STRING"
    )
    raise problems.refuse(
        node.place, "unknown-reference", f"there is no schema {shown(node.text)}", hint
    )
