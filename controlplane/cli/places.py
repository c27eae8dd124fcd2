"""Places in blueprints for people: a file on this machine by its path, others by their names.

A stored blueprint has the path that it was applied under, which may be of another machine, or of a
checkout that is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any


def shown_file(file: str, names: Mapping[str, str]) -> str:
    """A blueprint's file as it was typed, or its path if it is here, else its name alone. `names`:
    typed ones by the absolute name."""
    if file in names:
        return names[file]
    return PurePosixPath(file).name if _is_elsewhere(file) else file


def place_of(error: Mapping[str, Any], dataset: str) -> str:
    """FILE:LINE:COLUMN of the error of a dataset, as far as they are known; of a blueprint that is
    not here its dataflow with line and column."""
    file, line, column = error["file"], error.get("line"), error.get("column")
    is_of_blueprint = line and column  # places in data have no column
    if is_of_blueprint and dataset and _is_elsewhere(file):
        return f"dataflow {dataset.partition('.')[0]}, line {line}, column {column}"
    return ":".join(str(part) for part in (file, line, column) if part)


def _is_elsewhere(file: str) -> bool:
    return file.startswith("/") and not Path(file).exists()
