"""The language of `requirements`: packages that Python code needs, each pinned to one version.

The listed packages are installed without their dependencies: so the list alone determines which
code runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from controlplane.core.blueprint.problems import BlueprintRefused, shown
from controlplane.core.blueprint.value_kinds import JsonSchema, Reading, text_of
from controlplane.core.blueprint.yaml_nodes import Items, Node

PINNED = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?==[0-9A-Za-z][0-9A-Za-z.!+_-]{0,98}"
_OURS = frozenset({"pyspark", "py4j", "headgate", "pip", "setuptools"})


@dataclass(frozen=True, slots=True)
class Requirements:
    """`name==version`, in the order of names; equal names are recognised as package indexes do."""

    def read(self, node: Node, reading: Reading) -> tuple[str, ...]:
        if not isinstance(node, Items):
            raise reading.refuse(
                node, "wrong-type", "expected a list of packages", "write [humanize==4.9.0]"
            )
        pinned: dict[str, str] = {}
        for item in node.items:
            try:
                name, text = _pinned(item, reading)
            except BlueprintRefused:
                continue
            if name in pinned:
                reading.problems.add(item.place, "invalid-value", f"{shown(name)} is listed twice")
            pinned[name] = text
        return tuple(text for _, text in sorted(pinned.items()))

    def schema(self) -> JsonSchema:
        return {"type": "array", "items": {"type": "string", "pattern": f"^{PINNED}$"}}


def _pinned(node: Node, reading: Reading) -> tuple[str, str]:
    text = text_of(node, reading, "a package with its version")
    if not re.fullmatch(PINNED, text):
        hint = "name==version; packages that it depends on are listed, too"
        raise reading.refuse(
            node, "invalid-value", f"{shown(text)} is not pinned to one version", hint
        )
    name, _, version = text.partition("==")
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name in _OURS:
        raise reading.refuse(node, "invalid-value", f"{name} comes with the driver", "remove it")
    return name, f"{name}=={version}"
