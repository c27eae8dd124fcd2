"""Causes in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import assert_never

from controlplane.core.compile.nodes import Source, Transform
from controlplane.core.explain.change_authors import Audit
from controlplane.core.explain.steps import Differences
from controlplane.core.model.roll_ups import is_span
from controlplane.core.model.states import Cause
from dataplane.contract.keys import plain_key

NAMED = 3  # of many files, or inputs
ROOT_CAUSES = 3


def instant(at: float) -> str:
    """To the second, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def and_list(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def headline(roots: Sequence[str]) -> str:
    """Several causes as one sentence."""
    distinct = list(dict.fromkeys(roots))
    shown = distinct[:ROOT_CAUSES]
    rest = len(distinct) - len(shown)
    if rest:
        shown.append(f"{rest} more {'cause' if rest == 1 else 'causes'}")
    return and_list(shown)


# --- objects of sources ---------------------------------------------------------------------------


def of_objects(node: Source, differing: Differences, *, is_edited: bool = False) -> str:
    """`c/1.csv changed`; `5 files are new: a.csv, b.csv, c.csv, ...`. `is_edited`: the dataflow
    was, so that a file which is left out may be there still."""
    spans = [key for key in differing.new if is_span(key)]
    if spans and node.read.connector == "kafka":  # a file may have such a name, too
        return _rolled_up(node, differing, spans)
    left_out = _unread(node, differing) if is_edited else _removed(node, differing)
    parts = [_new(node, differing), _changed(node, differing), left_out]
    return and_list([part for part in parts if part])


def _rolled_up(node: Source, differing: Differences, spans: Sequence[str]) -> str:
    """Slices are gone for no other reason, and more may be new."""
    slices = [key for key in differing.new if not is_span(key)]
    words = f"slices of {node.dataset} were rolled up: {and_list(spans[:NAMED])}"
    if len(spans) > NAMED:
        words = f"{words}, ..."
    new = _new(node, replace(differing, new=slices))
    return f"{words}; {new}" if new else words


def _new(node: Source, differing: Differences) -> str:
    return _some(node, differing.new, differing.is_whole, singular="is new", plural="are new")


def _changed(node: Source, differing: Differences) -> str:
    return _some(node, differing.changed, differing.is_whole, singular="changed", plural="changed")


def _removed(node: Source, differing: Differences) -> str:
    return _some(node, differing.removed, differing.is_whole, singular="is gone", plural="are gone")


def _unread(node: Source, differing: Differences) -> str:
    return _some(
        node,
        differing.removed,
        differing.is_whole,
        singular="is not read any more",
        plural="are not read any more",
    )


def _some(node: Source, keys: Sequence[str], is_whole: bool, singular: str, plural: str) -> str:
    if not keys:
        return ""
    if len(keys) == 1 and is_whole:
        return f"{object_name(node, keys[0])} {singular}"
    count = f"{len(keys)}" if is_whole else f"more than {len(keys) - 1}"
    names = ", ".join(object_name(node, key) for key in keys[:NAMED])
    rest = ", ..." if len(keys) > NAMED or not is_whole else ""
    return f"{count} {_nouns(node)} {plural}: {names}{rest}"


def _nouns(node: Source) -> str:
    return "files" if _is_by_file(node) else f"partitions of {node.dataset}"


def object_name(node: Source, key: str) -> str:
    """A file with the folder that it lies in; else a partition with its source."""
    if not _is_by_file(node):
        return (
            f"partition {plain_key(key)} of {node.dataset}"
            if key
            else f"the content of {node.dataset}"
        )
    folder = _fixed_folder(node.location)
    if "*" not in node.location and "?" not in node.location:
        return plain_key(key)
    return f"{folder}/{plain_key(key)}" if folder else plain_key(key)


def _is_by_file(node: Source) -> bool:
    """Each key is the name of one file."""
    return node.read.connector == "files" and not node.read.partition


def _fixed_folder(location: str) -> str:
    """The name of the folder below which a pattern begins."""
    folders = location.split("/")
    fixed = next(
        (at for at, name in enumerate(folders) if set("*?[{") & set(name)), len(folders) - 1
    )
    return folders[fixed - 1] if fixed else ""


# --- causes of a dataset's own --------------------------------------------------------------------


def of_own(
    node: Source | Transform, cause: Cause, audit: Audit, *, revision: int, at: float
) -> str:
    """A cause that lies in the dataset itself. `at`: when it showed, or now."""
    name = node.dataset
    match cause:
        case "logic":
            return f"{_code(node)} changed ({_applied(audit, name, revision)})"
        case "missing":
            return f"{name} had never been {'read' if node.is_source else 'computed'}"
        case "schema":
            return f"columns that {name} reads changed"
        case "period":
            return f"{name} is volatile, and its {_period(node)} turned"
        case "forced":
            return _forced(audit, name, at)
        case "lost":
            return f"files of {name} were lost, and are made again"
        case "imported":
            return _imported(audit, name, at)
        case "rollback":
            return _rolled_back(audit, name, at)
        case "resume":
            return f"the hold of {name} ended"
        case "retry":
            return f"{name} is tried again"
        case "input" | "removed" | "sync":
            return f"the inputs of {name} changed"
        case _:
            assert_never(cause)


def of_types(node: Transform) -> str:
    """That a transform reads its inputs in another way, since their types are known."""
    return (
        f"the types of the inputs of {node.dataset} decide how it reads them: by its key, or whole"
    )


def _code(node: Source | Transform) -> str:
    if node.is_source:
        return f"how {node.dataset} is read"
    return f"the {'SQL' if node.query is not None else 'Python code'} of {node.dataset}"


def _applied(audit: Audit, dataset: str, revision: int) -> str:
    actor = audit.applied_by(dataset.partition(".")[0], revision)
    return f"revision {revision}" + (f", by {actor}" if actor else "")


def _period(node: Source | Transform) -> str:
    periods: Mapping[str, str] = {"daily": "day", "hourly": "hour"}
    return periods.get(node.component.volatile, "period")


def _forced(audit: Audit, dataset: str, at: float) -> str:
    change = audit.forced(dataset, at)
    if change is None:
        return f"an operator forced {dataset}"
    return f"{change.actor} forced {dataset} at {instant(change.at)}"


def _rolled_back(audit: Audit, dataset: str, at: float) -> str:
    change = audit.rolled_back(dataset, at)
    if change is None:
        return f"an operator rolled {dataset} back"
    return f"{change.actor} rolled {dataset} back at {instant(change.at)}"


def _imported(audit: Audit, dataset: str, at: float) -> str:
    change = audit.imported(dataset, at)
    if change is None:
        return f"rows of {dataset} were imported"
    return f"{change.actor} imported rows of {dataset} at {instant(change.at)}"


def of_inputs(names: Sequence[str]) -> str:
    """Inputs that changed."""
    return f"{_inputs(names)} changed"


def of_possible(names: Sequence[str]) -> str:
    """Inputs that may change; without any, there is nothing that could be named."""
    if not names:
        return "its sources moved on; the rows that it reads are as they were"
    return f"{_inputs(names)} may change"


def _inputs(names: Sequence[str]) -> str:
    shown = list(names[:NAMED])
    rest = len(names) - len(shown)
    if rest:
        shown.append(f"{rest} more")
    return f"its {'input' if len(names) == 1 else 'inputs'} {and_list(shown)}"
