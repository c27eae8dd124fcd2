"""Folders that jobs of Spark write, with a folder for each fragment, and their files at their last
places."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dataplane.contract.results import LABEL
from dataplane.lakes.lake_protocol import LakeFiles
from dataplane.lakes.local_lake import LocalFiles

if TYPE_CHECKING:
    from dataplane.lakes.hdfs import HdfsFiles

PARQUET = ".parquet"
_LABELLED = re.compile(rf"/{re.escape(LABEL)}=([^/]+)/[^/]+$")


def fragment_folder(folder: str, label: str) -> str:
    return f"{folder}/{LABEL}={label}"


def settle_in_place(files: LakeFiles, job: str) -> dict[str, dict[str, int]]:
    """Leave files in the folder of their job, for stores that copy to rename."""
    return by_label(parquet_sizes(files, job))


def settle_by_moving(
    files: LocalFiles | HdfsFiles, job: str, prefix: str
) -> dict[str, dict[str, int]]:
    """Move files beside those of other jobs, at the cost of a rename for each fragment. Files that
    an earlier try of the same attempt left there are replaced."""
    labels = [
        name.removeprefix(f"{LABEL}=") for name in files.move_folders(job, prefix, f"{LABEL}=")
    ]
    files.delete_folder(job)
    return {label: parquet_sizes(files, fragment_folder(prefix, label)) for label in labels}


def parquet_sizes(files: LakeFiles, folder: str) -> dict[str, int]:
    """Path -> bytes of all Parquet files below a folder, in order."""
    sizes = files.sizes(folder)
    return {path: sizes[path] for path in sorted(sizes) if path.endswith(PARQUET)}


def by_label(sizes: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Files, with sizes, by the label in their paths."""
    sizes_by_label: dict[str, dict[str, int]] = {}
    for path, size in sizes.items():
        if named := _LABELLED.search(path):
            sizes_by_label.setdefault(named[1], {})[path] = size
    return sizes_by_label
