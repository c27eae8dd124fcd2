"""Damage of the log of one of our tables that keeps readers from opening it, and the facts that it
still gives.

Reads the log as the store holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from controlplane.core.errors import NotFound
from controlplane.ports.lake import ObjectStore
from dataplane.contract.delta_log import HINT, LOG, LogFiles, actions_in, commit_name

Action: TypeAlias = Mapping[str, Any]

_KINDS = ("protocol", "metaData", "add", "remove", "txn")


@dataclass(slots=True)
class DeltaLog:
    """`newest`: the latest version. `files`: paths, with sizes, that are active as far as the log
    shows. `damage`: why no reader can open the table; None if there is no such reason."""

    newest: int = -1
    damage: str | None = None
    table_id: str | None = None
    files: dict[str, int] = field(default_factory=dict)


def examine(lake: ObjectStore, table: str) -> DeltaLog:
    """Read the whole log. OSError where the store fails, which is no damage."""
    return _Examination(lake, f"{table}/{LOG}").made()


def hint(table: str) -> str:
    """The file that says where the last checkpoint is."""
    return f"{table}/{LOG}/{HINT}"


class _Examination:
    def __init__(self, lake: ObjectStore, folder: str) -> None:
        self._lake, self._folder, self._log = lake, folder, DeltaLog()
        self._action_kinds: set[str] = set()  # kinds of actions

    def made(self) -> DeltaLog:
        names = [path.removeprefix(f"{self._folder}/") for path in self._lake.sizes(self._folder)]
        files = LogFiles.of(names)
        self._log.newest = files.newest
        base = files.base(files.newest)
        if HINT in names and not files.checkpoints:
            self._note_damage("it has no checkpoint, though _last_checkpoint names one")
        for name in files.checkpoints.get(base, ()):
            self._take(name)
        for version, name in files.commits.items():
            if version > base:
                self._take(name)
        missing = next((v for v in range(base + 1, files.newest) if v not in files.commits), None)
        if missing is not None:
            self._note_damage(f"{commit_name(missing)} is missing")
        for kind in ("protocol", "metaData"):
            if kind not in self._action_kinds:
                self._note_damage(f"no entry has the table's {kind}")
        return self._log

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
        yield from actions_in(body.split(b"\n"))
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
