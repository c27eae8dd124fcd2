"""The tree of causes as a list, for pages and notebooks. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.core.model.answers import WhyNode


def listed_causes(node: WhyNode | None, depth: int = 0) -> Iterator[tuple[int, WhyNode]]:
    """The causes, nearest first, with how deep each is."""
    if node is None:
        return
    yield depth, node
    for cause in node["inputs"]:
        yield from listed_causes(cause, depth + 1)
