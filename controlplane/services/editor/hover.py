"""The text shown at a name: a dataset's kind, its columns, how it reads each input and why; or the
meaning of a key.

Texts are Markdown in which nothing that a user wrote is markup.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from controlplane.core.compile.nodes import Node, Sink, Slot, Source, Transform
from controlplane.core.model.answers import DatasetAnswer
from controlplane.core.review.column_diff import as_ddl
from controlplane.services.editor.knowledge import Meaning

MOST_COLUMNS = 60


def of_dataset(meant: Meaning, dataset: str, component: str, answer: DatasetAnswer | None) -> str:
    """`component`: where the name stands; the text says how it reads the dataset. `answer`: the
    service's facts."""
    node = meant.nodes[dataset]
    parts = [f"**{dataset}**: {_kind(node)}", *_described(node)]
    reader = meant.nodes.get(f"{meant.dataflow}.{component}")
    parts += [
        f"{component} reads it {_how(slot)}" for slot in _slots(reader) if slot.dataset == dataset
    ]
    if reader is node:
        parts.append("\n".join(f"- reads `{slot.name}` {_how(slot)}" for slot in node.slots))
    if answer is not None:
        parts.append(_standing(answer))
    parts += _columns(columns_of(meant, dataset, answer))
    return "\n\n".join(part for part in parts if part)


def columns_of(meant: Meaning, dataset: str, answer: DatasetAnswer | None) -> dict[str, str]:
    """Columns with types: those that the text declares, else those of a service, else names
    alone."""
    declared = meant.types(dataset)
    is_whole = bool(declared) and all(declared.values())
    if answer is not None and answer["schema"] is not None and not is_whole:
        stored = as_ddl(answer["schema"])  # type: ignore[arg-type]  # the same JSON
        return {name: stored.get(name, "") for name in declared} if declared else stored
    return declared


def of_key(name: str, schema: Mapping[str, object]) -> str:
    """The meaning of a key, with its default and an example."""
    parts = [f"**{name}**: {plain(str(schema['description']))}"] if "description" in schema else []
    words = schema.get("enum")
    parts += (
        [f"one of {', '.join(f'`{word}`' for word in words)}"] if isinstance(words, list) else []
    )
    parts += [f"default: `{schema['default']}`"] if "default" in schema else []
    return "\n\n".join(parts)


def plain(text: str) -> str:
    """As Markdown that shows just this text. Code in backquotes stays so: our own reasons have
    it."""
    pieces = re.split(r"(`[^`\n]*`)", text)
    return "".join(
        p if p.startswith("`") and p.endswith("`") and len(p) > 1 else _escaped(p) for p in pieces
    )


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]()<>#+!|~-])", r"\\\1", text)


def _kind(node: Node) -> str:
    match node:
        case Source():
            return f"read, {node.read.connector} {plain(node.location)}"
        case Sink():
            return f"write, {node.write.connector} {plain(node.path)}, a copy of {node.source}"
        case Transform():
            return "transform in SQL" if node.query is not None else "transform in Python"


def _described(node: Node) -> list[str]:
    return [plain(node.component.description)] if node.component.description else []


def _slots(reader: Node | None) -> tuple[Slot, ...]:
    return reader.slots if reader is not None else ()


def _how(slot: Slot) -> str:
    """The mode and its reason; most reasons begin with the mode."""
    mode = f"`{slot.shown_mode}`"
    reason = plain(slot.explanation)
    return reason if slot.reason.startswith(mode) else f"{mode}: {reason}"


def _standing(answer: DatasetAnswer) -> str:
    reason = f"; {plain(answer['reason'])}" if answer["reason"] else ""
    counts = f"{answer['partitions']} partitions, {answer['rows']} rows"
    return f"{answer['state']}, generation {answer['generation']}, {counts}{reason}"


def _columns(columns: Mapping[str, str]) -> list[str]:
    if not columns:
        return []
    lines = [f"{name} {kind}".rstrip().replace("`", "'") for name, kind in columns.items()][
        :MOST_COLUMNS
    ]
    rest = [f"and {len(columns) - MOST_COLUMNS} more"] if len(columns) > MOST_COLUMNS else []
    return ["```\n" + "\n".join([*lines, *rest]) + "\n```"]
