"""Folders `key=value` of listed files, where a dataset reads them as columns. All its files have
the same keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from dataplane.contract.jobs import ListJob
from dataplane.contract.key_folders import SETTING, KeyFolders, key_folders
from dataplane.contract.source_objects import SourceObject
from dataplane.listing.file_columns import is_headerless
from dataplane.task_failures import TaskFailure

Keys: TypeAlias = tuple[str, ...]


def with_folders(
    sources: Iterator[tuple[str, SourceObject]], job: ListJob
) -> Iterator[tuple[str, SourceObject]]:
    """Files with the columns that their folders give. TaskFailure for the first file whose keys are
    not those of the files before it. A file outside of such folders has none, except in CSV without
    a header: there columns have places, so a column of the file could not be distinguished from one
    of its folders."""
    if not (job.get("settings") or {}).get(SETTING):
        yield from sources
        return
    agreement = _Agreement(is_positional=is_headerless(job["format"], job["options"]))
    for key, source in sources:
        folders = key_folders(source["name"])
        agreement.check(source["name"], tuple(name for name, _ in folders))
        as_json = cast("KeyFolders", [[name, text] for name, text in folders])
        yield key, {**source, "folders": as_json} if folders else source


@dataclass(slots=True)
class _Agreement:
    is_positional: bool
    first: dict[Keys, str] = field(default_factory=dict)  # a file for each list of keys

    def check(self, name: str, keys: Keys) -> None:
        if keys in self.first:
            return
        if twice := next((key for key, count in Counter(keys).items() if count > 1), None):
            raise _refused(f"{name} is in two folders of the key {twice!r}")
        self.first[keys] = name
        others = [
            other
            for other in self.first
            if other != keys and (self.is_positional or (other and keys))
        ]
        if others:
            raise _refused(
                f"{name} is in folders of {_in_words(keys)}, and {self.first[others[0]]} of {_in_words(others[0])}"
            )


def _in_words(keys: Keys) -> str:
    return "/".join(f"{key}=" for key in keys) or "no key"


def _refused(message: str) -> TaskFailure:
    hint = "move the file, narrow `path`, or write `hive_partitioning: false`"
    return TaskFailure(
        "folder-keys-differ", f"{message}; all files of a dataset need the same keys: {hint}"
    )
