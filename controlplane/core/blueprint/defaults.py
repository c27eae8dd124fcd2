"""Defaults of a dataflow: keys that its components have unless they say otherwise.

    defaults:
      owner: team-revenue
      read: {connector: files, format: csv, options: {header: true}}

Defaults of `read` and `write` that name a connector hold for components of this connector, and for
those that name none. A connector does not get a key that it does not have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from controlplane.core.blueprint.problems import Problems, shown
from controlplane.core.blueprint.trees import merged, nothing, only, replaced
from controlplane.core.blueprint.value_kinds import described
from controlplane.core.blueprint.yaml_nodes import BrokenNode, Entries, Node, Scalar

# Keys of every component
KEYS = ("owner", "tags", "paused", "priority", "retention", "resources", "publish")
BODIES = ("read", "write")
Known = Mapping[str, Collection[str]]  # the keys of each connector


def declared(
    section: Node | None, keys_of: Mapping[str, Known], problems: Problems
) -> Entries | None:
    """The defaults, without keys that no component has: these are reported. `keys_of`: of `read`
    and of `write`."""
    if section is None or isinstance(section, BrokenNode):
        return None
    if not isinstance(section, Entries):
        problems.add(
            section.place,
            "wrong-type",
            f"expected a mapping of keys to values, found {described(section)}",
        )
        return None
    _report_unknown(section, (*KEYS, *BODIES), problems)
    for body in BODIES:
        node = section.get(body)
        if isinstance(node, Entries):
            _report_unknown(
                node, sorted({key for keys in keys_of[body].values() for key in keys}), problems
            )
        elif node is not None and not isinstance(node, BrokenNode):
            problems.add(
                node.place,
                "wrong-type",
                f"expected a mapping of keys to values, found {described(node)}",
            )
    return only(section, (*KEYS, *BODIES))


def _report_unknown(node: Entries, names: Collection[str], problems: Problems) -> None:
    for key, _ in node.entries:
        if key.text not in names:
            hint = problems.guess(key.text, names) or f"known here: {', '.join(names)}"
            problems.add(
                key.place, "unknown-key", f"there is no default of {shown(key.text)}", hint
            )


def applied(component: Entries, defaults: Entries, keys_of: Mapping[str, Known]) -> Entries:
    """A component with what the defaults say for it."""
    component_after = merged(component, only(defaults, KEYS))
    for body in BODIES:
        own, default = component_after.get(body), defaults.get(body)
        if isinstance(own, Entries) and isinstance(default, Entries):
            component_after = replaced(
                component_after, body, merged(own, _fitting(own, default, keys_of[body]))
            )
    return component_after


def _fitting(own: Entries, default: Entries, keys_of: Known) -> Entries:
    """The defaults that hold for a component of its connector."""
    named, usual = own.get("connector"), default.get("connector")
    connector = named if isinstance(named, Scalar) else usual
    if not isinstance(connector, Scalar):
        return default
    if isinstance(usual, Scalar) and usual.text != connector.text:
        return nothing(default.place)
    return only(default, keys_of.get(connector.text, ()))
