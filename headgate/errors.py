"""Errors as users of the package see them: in words, with their places."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import httpx2

from controlplane.cli import failures
from controlplane.cli.output import problem_lines
from controlplane.client import ApiError
from controlplane.core.errors import HeadgateError
from controlplane.settings import BadSetting


class Refused(Exception):
    """A request was refused. The text has a line for each problem: `FILE:LINE:COL: code: message
    (hint)`.

    `code` is one of docs/errors.md; `problems` are the same with their fields, as the API gives
    them.
    """

    def __init__(self, code: str, problems: list[dict[str, Any]]) -> None:
        super().__init__("\n".join(problem_lines(problems)))
        self.code, self.problems = code, problems


class MissingPackage(ImportError):
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
