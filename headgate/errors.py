"""Errors as users of the package see them: in words, with their places."""

from __future__ import annotations

import importlib
import os
import sysconfig
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx2

from controlplane.cli import failures
from controlplane.cli.output import problem_lines
from controlplane.client import ApiError
from controlplane.core.errors import HeadgateError
from controlplane.settings import BadSetting

PACKAGES = {"site-packages", "dist-packages"}  # folders of packages, among them IPython
_ROOT = Path(__file__).parents[1]
_OWN_FOLDERS = tuple(
    f"{_ROOT / name}{os.sep}" for name in ("headgate", "controlplane", "dataplane")
)
_LIBRARY = sysconfig.get_path("stdlib")


class ShortTraceback(Exception):
    """An error that IPython shows with the lines of the user's code alone."""

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython prints in place of a traceback."""
        frames = traceback.extract_tb(self.__traceback__)
        places = [f"  line {frame.lineno}: {frame.line}" for frame in frames if _is_users(frame)]
        return [f"\x1b[31m{type(self).__name__}\x1b[0m: {self}", *places]


def _is_users(frame: traceback.FrameSummary) -> bool:
    """Whether the line is of a cell or a program, not of a package."""
    if frame.filename.startswith((*_OWN_FOLDERS, _LIBRARY)):
        return False
    return bool(frame.line) and PACKAGES.isdisjoint(Path(frame.filename).parts)


class Refused(ShortTraceback):
    """A request was refused. The text has a line for each problem: `FILE:LINE:COL: code: message
    (hint)`.

    `code` is one of docs/errors.md; `problems` are the same with their fields, as the API gives
    them.
    """

    def __init__(self, code: str, problems: list[dict[str, Any]]) -> None:
        super().__init__("\n".join(problem_lines(problems)))
        self.code, self.problems = code, problems


def refused(code: str, message: str) -> Refused:
    """A refusal of our own, which no file is about."""
    problem = {"file": "", "line": 0, "column": 0, "code": code, "message": message, "hint": ""}
    return Refused(code, [problem])


class MissingPackage(ShortTraceback, ImportError):
    """A package that an optional part needs is not installed. The text says how to install it."""


@contextmanager
def as_refused(names: Mapping[str, str] | None = None) -> Iterator[None]:
    """Errors of the client, of blueprints and of connections become Refused. `names`: absolute
    names of files to those that the user wrote."""
    try:
        yield
    except (ApiError, HeadgateError, BadSetting, httpx2.HTTPError) as error:
        document = failures.document(error, names or {})
        code = str(document["type"]).removeprefix("urn:headgate:")
        raise Refused(code, document["errors"]) from None


def needed(module: str, package: str) -> ModuleType:
    """A module of a package that is optional. Raises MissingPackage."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackage(
            f"this needs the package {package}: pip install {package} ({error})"
        ) from error
