"""Finding credentials that a user wrote into a connector. Their values never enter a message."""

from __future__ import annotations

import re
from collections.abc import Iterator

from controlplane.core.blueprint.problems import Problems, shown
from controlplane.core.blueprint.yaml_nodes import Entries, Items, Node, Scalar

_SECRET_KEY = re.compile(
    r"password|passwd|passphrase|secret|token|credential|(access|account|api|private|shared)[._-]?key",
    re.IGNORECASE,
)
_SECRET_IN_URL = re.compile(
    r"://[^/\s:@]*:[^/\s@]+@|[?&;](password|pwd|sig|token)=[^&;\s]", re.IGNORECASE
)
_HINT = "write secret://name/key; the value stays outside the blueprint"


def may_stand_in(line: str) -> bool:
    """Whether a line of a text may hold a credential."""
    without = line.replace("secret://", "")
    return bool(_SECRET_KEY.search(without) or _SECRET_IN_URL.search(without))


def report(connector: Entries, problems: Problems) -> None:
    for key, value in _scalars(connector):
        if value.text.startswith("secret://") or not value.text:
            continue
        if key and _SECRET_KEY.search(key) and not isinstance(value.value, bool | None):
            problems.add(
                value.place, "literal-secret", f"{shown(key)} holds a secret in plain text", _HINT
            )
        elif _SECRET_IN_URL.search(value.text):
            problems.add(value.place, "literal-secret", "this URL holds a password or token", _HINT)


def _scalars(root: Node) -> Iterator[tuple[str, Scalar]]:
    """Every scalar value with the key that it belongs to."""
    open_nodes: list[tuple[str, Node]] = [("", root)]
    while open_nodes:
        key, node = open_nodes.pop()
        match node:
            case Scalar():
                yield key, node
            case Items(items=items):
                open_nodes += ((key, item) for item in items)
            case Entries(entries=entries):
                open_nodes += ((k.text, value) for k, value in entries)
            case _:
                pass
