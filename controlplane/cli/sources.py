"""Blueprints from files: read, with the texts that they name, and given absolute names, as the API
wants them."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.core.errors import Checked, HeadgateError, InvalidBlueprint

if TYPE_CHECKING:
    from controlplane.client import Document
    from controlplane.operations.desired.blueprints import SentBlueprint

MOST_BYTES = 5_000_000


class Unreadable(HeadgateError):
    """A file that was named on the command line cannot be read."""

    code = "unreadable-file"


@dataclass(frozen=True, slots=True)
class BlueprintText:
    """One blueprint: its path as it was typed, its text, and the texts of files that it names.
    `base`: the folder that stands for the command's own in the name for a service."""

    path: Path
    text: str
    files: Mapping[str, str]
    base: str | None = None

    @property
    def name(self) -> str:
        """The absolute name in this process."""
        return str(self.path.absolute())

    @property
    def sent_name(self) -> str:
        """The absolute name for a service: relative paths are relative to its folder."""
        return sent_name(self.path, self.base)


def sent_name(path: Path, base: str | None) -> str:
    """A blueprint's name for a service: the absolute one, or the one below `base`, as it is below
    this folder."""
    if base is None:
        return str(path.absolute())
    return posixpath.normpath(posixpath.join(base, os.path.relpath(path)))


def load(paths: Sequence[Path], base: str | None = None) -> tuple[BlueprintText, ...]:
    """All blueprints, or Unreadable, or InvalidBlueprint where one is not even text: then with the
    problems of the others too. A file that a blueprint names and that is not there is left to
    validation."""
    texts = read(paths, base)
    if not all(map(_is_text, texts)):
        raise InvalidBlueprint(validate(texts).problems)
    return texts


def read(paths: Sequence[Path], base: str | None = None) -> tuple[BlueprintText, ...]:
    """As `load`, for files of any bytes. Raises Unreadable."""
    return tuple(of_bytes(path, _read(path), base) for path in paths)


def of_bytes(path: Path, data: bytes, base: str | None = None) -> BlueprintText:
    """A blueprint that lies, or is to lie, at a path. Bytes that are no UTF-8 become surrogates."""
    from controlplane.core.blueprint import file_references

    text = data.decode(errors="surrogateescape")
    return BlueprintText(path, text, dict(_referenced(path.parent, file_references(text))), base)


def _is_text(blueprint: BlueprintText) -> bool:
    """Whether all its bytes are UTF-8: others stand in the text as surrogates, of which the reader
    knows."""
    try:
        blueprint.text.encode()
    except UnicodeEncodeError:
        return False
    return True


def validate(texts: Iterable[BlueprintText]) -> Checked:
    """The problems and notices that need no server."""
    from controlplane.operations.desired import blueprints

    return blueprints.validate(as_sources(texts))


def _read(path: Path) -> bytes:
    """At most one byte more than a blueprint may have: enough to refuse it."""
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror or error}") from error


def _referenced(folder: Path, names: Iterable[str]) -> Iterable[tuple[str, str]]:
    for name in names:
        if (folder / name).is_file():
            yield (
                name,
                _read(folder / name)
                .decode(errors="surrogateescape")
                .encode("utf-8", "replace")
                .decode(),
            )


def as_documents(texts: Iterable[BlueprintText]) -> list[Document]:
    return [{"name": t.sent_name, "text": t.text, "files": dict(t.files)} for t in texts]


def as_sources(texts: Iterable[BlueprintText]) -> list[SentBlueprint]:
    from controlplane.operations.desired.blueprints import SentBlueprint

    return [SentBlueprint(t.name, t.text, t.files) for t in texts]
