"""Files in the log of a Delta table: their names, which of them make a version, and their lines.

    _delta_log/00000000000000000007.json                  a commit: version 7 is the version before and these actions
    _delta_log/00000000000000000020.checkpoint.parquet    all of version 20, perhaps in several parts
    _delta_log/_last_checkpoint                           the version at which a reader begins

https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from dataplane.contract.schemas import Json

LOG = "_delta_log"
HINT = "_last_checkpoint"
NO_VERSION = -1
_COMMIT = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(
    r"([0-9]{20})\.checkpoint(?:\.[0-9]{10}\.(?P<parts>[0-9]{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)"
)


def commit_name(version: int) -> str:
    return f"{version:020}.json"


def checkpoint_name(version: int) -> str:
    """The name of a checkpoint in one part."""
    return f"{version:020}.checkpoint.parquet"


def version_in(name: str) -> int | None:
    """The version of a commit, or of a part of a checkpoint, by the name of its file in the log."""
    match = _COMMIT.fullmatch(name) or _CHECKPOINT.fullmatch(name)
    return int(match[1]) if match else None


class LogFiles(NamedTuple):
    """Names by version: of commits, and of all parts of checkpoints of which no part is missing."""

    commits: Mapping[int, str]
    checkpoints: Mapping[int, tuple[str, ...]]

    @staticmethod
    def of(names: Iterable[str]) -> LogFiles:
        """`names`: of all files in the log; others than commits and checkpoints are passed over."""
        commits: dict[int, str] = {}
        parts: dict[tuple[int, str], list[str]] = {}
        for name in sorted(names):
            if match := _COMMIT.fullmatch(name):
                commits[int(match[1])] = name
            elif match := _CHECKPOINT.fullmatch(name):
                parts.setdefault((int(match[1]), match["parts"] or name), []).append(name)
        checkpoints = {
            version: tuple(files)
            for (version, count), files in parts.items()
            if not count.isdigit() or len(files) == int(count)
        }
        return LogFiles(commits, checkpoints)

    @property
    def newest(self) -> int:
        return max((*self.commits, *self.checkpoints), default=NO_VERSION)

    def base(self, version: int) -> int:
        """The version of the last whole checkpoint up to this one; NO_VERSION without any."""
        return max((v for v in self.checkpoints if v <= version), default=NO_VERSION)


def actions_in(lines: Iterable[bytes]) -> Iterator[Mapping[str, Json]]:
    """The actions of a commit, one a line. ValueError for a line that is no object."""
    for line in filter(None, map(bytes.strip, lines)):
        action = json.loads(line)
        if not isinstance(action, dict):
            raise ValueError(f"not an object: {line[:50]!r}")
        yield action


def commit_body(actions: Iterable[Json]) -> bytes:
    """A commit with these actions."""
    return b"".join(json.dumps(action).encode() + b"\n" for action in actions)
