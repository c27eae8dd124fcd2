"""Folders of links through which Spark reads files: names of ours, with the label of a fragment in
the path.

Spark takes glob characters, hidden names, colons and percent signs of a path for more than text,
and the only column that separates rows of different files without a join is a partition folder. So
no name that a user chose reaches it: `<folder>/_fragment=<label>/<number>.<suffix>` is a symbolic
link to the file. Where a label has all files of one folder, `<folder>/_fragment=<label>` is a link
to that: on ext4 a new folder and the first name in it take ten times as long.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from dataplane.contract.results import LABEL
from dataplane.contract.schemas import Json, Schema

_SUFFIXES = re.compile(r"(\.[A-Za-z0-9]{1,8}){1,2}$")  # Hadoop recognizes compression by them
_AS_IT_IS = re.compile(r"[A-Za-z0-9][\w.-]*\.parquet", re.ASCII)  # to Spark, nothing but a name
_NAME = re.compile(re.escape(LABEL) + r"=([0-9a-f]{32})")
OBJECT = "_object"
_LABEL_FIELD: Json = {"name": LABEL, "type": "string", "nullable": True, "metadata": {}}


def with_label(schema: Schema) -> Schema:
    """The schema of rows that are read through links with labels."""
    return {**schema, "fields": [*schema["fields"], _LABEL_FIELD]}


class LinkedFiles:
    """One folder, read by Spark as one table. With labels every row has the text column
    `_fragment`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.targets: dict[str, str] = {}
        folder.mkdir(parents=True)

    def add(self, target: str, label: str | None = None, number: int | None = None) -> None:
        """Link a file; with `number` its rows also have the column `_object`."""
        place = self.folder if label is None else self.folder / f"{LABEL}={label}"
        if number is not None:
            place /= f"{OBJECT}={number}"
        place.mkdir(parents=True, exist_ok=True)
        alias = f"{place}/{len(self.targets)}{suffix_of(target)}"
        os.symlink(target, alias)
        self.targets[alias] = target

    def add_all(self, targets: Sequence[str], label: str | None) -> None:
        """Link files that are there; those of a label by one link to their folder where they are
        all that is in it."""
        folder = os.path.dirname(targets[0])
        if label is None or not _are_all_in(folder, targets):
            for target in targets:
                self.add(target, label)
            return
        alias = f"{self.folder}/{LABEL}={label}"
        os.symlink(folder, alias)
        self.targets |= {f"{alias}/{os.path.basename(target)}": target for target in targets}

    def renamed(self, text: str) -> str:
        """A text with the files' own paths in place of links."""
        if str(self.folder) not in text:
            return text
        pattern = re.escape(str(self.folder)) + r"/[\w=./-]*\w"
        return re.sub(pattern, lambda name: self.targets.get(name[0], name[0]), text)

    def __bool__(self) -> bool:
        return bool(self.targets)


def _are_all_in(folder: str, targets: Sequence[str]) -> bool:
    """Whether the folder has these files, each named once, and nothing else that Spark would read
    or read otherwise."""
    with os.scandir(folder) as names:
        are_files = {name.path: name.is_file() for name in names}
    return (
        len(targets) == len(are_files)
        and are_files == dict.fromkeys(targets, True)
        and all(_AS_IT_IS.fullmatch(os.path.basename(target)) for target in targets)
    )


def suffix_of(path: str) -> str:
    suffix = _SUFFIXES.search(os.path.basename(path))
    return suffix[0] if suffix else ""


def labels_in(text: str) -> frozenset[str]:
    """Labels of fragments whose paths a text names."""
    return frozenset(_NAME.findall(text))
