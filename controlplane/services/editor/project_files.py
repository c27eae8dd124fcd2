"""Files for a project and its editor: which there are, and writing them without losing existing
text."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from controlplane.core.blueprint import json_schema
from controlplane.core.errors import HeadgateError

HERE = Path(__file__).parent
SCHEMA = ".vscode/headgate.schema.json"
SNIPPETS = ".vscode/headgate.code-snippets"


class AlreadyThere(HeadgateError):
    """A new project would overwrite files. The message names them; nothing was written."""

    code = "already-there"


class NotWritten(HeadgateError):
    """A file cannot be written."""

    code = "unreadable-file"


def schema_text() -> str:
    return json.dumps(json_schema(), indent=1) + "\n"


def snippets_text() -> str:
    return (HERE / "headgate.code-snippets").read_text(encoding="utf-8")


def editor_files() -> dict[str, str]:
    """The files for VS Code in a folder: a schema, to which blueprints point, and snippets."""
    return {SCHEMA: schema_text(), SNIPPETS: snippets_text()}


def project_files(name: str) -> dict[str, str]:
    """A project with one dataflow of this name, by relative path."""
    files = {
        "README.md": _text("README.md"),
        ".gitignore": _text("gitignore"),
        f"blueprints/{name}.yaml": _text("blueprint.yaml"),
        "data/orders/2026-11-01.csv": _text("orders.csv"),
        ".github/workflows/headgate.yaml": _workflow(),
        ".vscode/extensions.json": _text("extensions.json"),
    }
    return {path: text.replace("NAME", name) for path, text in files.items()} | editor_files()


def described(name: str, blueprint: str) -> dict[str, str]:
    """A project whose blueprint was made of files that are there already."""
    files = project_files(name)
    del files["data/orders/2026-11-01.csv"]
    header = files[f"blueprints/{name}.yaml"].splitlines()[0]
    readme = files["README.md"].split("\nPut another file")[0].replace("by_shop", "DATASET")
    return {**files, "README.md": readme, f"blueprints/{name}.yaml": f"{header}\n{blueprint}"}


def relative(folder: Path, to: Path) -> str:
    """The folder as a blueprint in `to` names it: a neighbour relative, anything else in full."""
    project = to.absolute().parent
    if folder.absolute().is_relative_to(project):
        return Path(os.path.relpath(folder.absolute(), to.absolute())).as_posix()
    return folder.absolute().as_posix()


def name_for(folder: Path) -> str:
    """The name of a dataflow that is nearest to a folder's; `shop` where nothing of it can be in
    one."""
    name = re.sub(r"_+", "_", re.sub(r"[^a-z0-9]", "_", folder.absolute().name.lower())).strip("_")
    return name if re.fullmatch(r"[a-z][a-z0-9_]{0,99}", name) and name != "self" else "shop"


def write_new(folder: Path, files: Mapping[str, str]) -> None:
    """All of them, or none where one is there already. Raises AlreadyThere, NotWritten."""
    there = [path for path in files if (folder / path).exists() or (folder / path).is_symlink()]
    if there:
        words = ", ".join(there)
        raise AlreadyThere(
            f"{folder} has {words} already: name another folder, or move them away; nothing was written"
        )
    for path, text in files.items():
        _write(folder / path, text, "x")


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Over those that are there: they are ours. Raises NotWritten."""
    for path, text in files.items():
        _write(folder / path, text, "w")


def _write(path: Path, text: str, mode: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise NotWritten(f"{error.filename or path}: {error.strerror or error}") from error


def _text(name: str) -> str:
    return (HERE / "project" / name).read_text(encoding="utf-8")


def _workflow() -> str:
    """The one of docs/ci.md: packaged in a wheel, in `docs` of a checkout."""
    packaged = HERE / "project" / "github-actions.yaml"
    path = (
        packaged if packaged.is_file() else HERE.parents[2] / "docs" / "ci" / "github-actions.yaml"
    )
    return path.read_text(encoding="utf-8")
