"""Damage of the log of one of our tables that keeps readers from opening it, and the facts that it still gives.

Reads the log as the store holds it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from controlplane.core.errors import NotFound
from controlplane.ports.lake import ObjectStore

Action: TypeAlias = Mapping[str, Any]

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)")
_HINT = "_last_checkpoint"
_KINDS = ("protocol", "metaData", "add", "remove", "txn")


@dataclass(slots=True)
class DeltaLog:
    """`newest`: the latest version. `files`: paths, with sizes, that are active as far as the log shows. `damage`: why
    no reader can open the table; None if there is no such reason."""

    newest: int = -1
    damage: str | None = None
    table_id: str | None = None
    files: dict[str, int] = field(default_factory=dict)


def examine(lake: ObjectStore, table: str) -> DeltaLog:
    """Read the whole log. OSError where the store fails, which is no damage."""
    return _Examination(lake, f"{table}/_delta_log").made()


def hint(table: str) -> str:
    """The file that says where the last checkpoint is."""
    return f"{table}/_delta_log/{_HINT}"


class _Examination:
    def __init__(self, lake: ObjectStore, folder: str) -> None:
        self._lake, self._folder, self._log = lake, folder, DeltaLog()
        self._action_kinds: set[str] = set()  # kinds of actions

    def made(self) -> DeltaLog:
        names = sorted(path.removeprefix(f"{self._folder}/") for path in self._lake.sizes(self._folder))
        commits = {int(match[1]): name for name in names if (match := _COMMIT.fullmatch(name))}
        checkpoints = self._checkpoints(names)
        self._log.newest = max((*commits, *checkpoints), default=-1)
        base = max(checkpoints, default=-1)
        if _HINT in names and not checkpoints:
            self._note_damage("it has no checkpoint, though _last_checkpoint names one")
        for name in checkpoints.get(base, ()):
            self._take(name)
        for version in sorted(commits):
            if version > base:
                self._take(commits[version])
        missing = next((v for v in range(base + 1, self._log.newest) if v not in commits), None)
        if missing is not None:
            self._note_damage(f"{missing:020}.json is missing")
        for kind in ("protocol", "metaData"):
            if kind not in self._action_kinds:
                self._note_damage(f"no entry has the table's {kind}")
        return self._log

    def _checkpoints(self, names: list[str]) -> dict[int, list[str]]:
        """Those of which all parts are there."""
        parts: dict[tuple[int, str], list[str]] = {}
        for name in names:
            if match := _CHECKPOINT.fullmatch(name):
                parts.setdefault((int(match[1]), match[2] or name), []).append(name)
        return {v: some for (v, of), some in parts.items() if not of.isdigit() or len(some) == int(of)}

    def _note_damage(self, damage: str) -> None:
        self._log.damage = self._log.damage or damage

    def _take(self, name: str) -> None:
        try:
            for action in _actions(name, self._lake.read(f"{self._folder}/{name}")):
                self._apply(action)
        except NotFound:
            self._note_damage(f"{name} is missing")
        except (ValueError, TypeError, KeyError, AttributeError) as e:
            self._note_damage(f"{name} cannot be read: {str(e).partition(chr(10))[0][:200]}")

    def _apply(self, action: Action) -> None:
        for kind in _KINDS:
            if (body := action.get(kind)) is None:
                continue
            self._action_kinds.add(kind)
            match kind:
                case "add":
                    self._log.files[str(_text(body["path"]))] = int(body["size"])
                case "remove":
                    self._log.files.pop(_text(body["path"]), None)
                case "metaData":
                    self._log.table_id = str(_text(body["id"]))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"not a text: {value!r}"[:100])  # of what stands in a file
    return value


def _actions(name: str, body: bytes) -> Iterator[Action]:
    if not name.endswith(".parquet"):
        yield from map(_object, filter(None, map(bytes.strip, body.split(b"\n"))))
        return
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(pa.BufferReader(body), page_checksum_verification=True) as file:
            kinds = [kind for kind in _KINDS if kind in file.schema_arrow.names]
            rows = [row for batch in file.iter_batches(columns=kinds) for row in batch.to_pylist()]
    except (OSError, pa.ArrowException) as e:
        raise ValueError(str(e)) from e
    yield from rows


def _object(line: bytes) -> Action:
    action = json.loads(line)
    if not isinstance(action, dict):
        raise ValueError(f"not an object: {line[:50]!r}")
    return action
