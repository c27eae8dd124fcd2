"""Files of a lake that is not in a folder, as Arrow's datasets open them. They are only read, and
never listed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSystemHandler, FileType

from dataplane.storage.lake import Lake


class LakeHandler(FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def get_type_name(self) -> str:
        return "headgate-lake"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[FileInfo]:
        return [FileInfo(path, FileType.File) for path in paths]

    def open_input_stream(self, path: str) -> Any:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> Any:
        return pa.PythonFile(self._lake.open(path), mode="r")

    def _refuse(self, *_: object) -> Any:
        raise NotImplementedError("files of the lake are only read")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = _refuse
    delete_root_dir_contents = delete_file = move = copy_file = open_output_stream = (
        open_append_stream
    ) = _refuse
