"""Every way a command can fail, as a problem document, lines on standard error, and an exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from controlplane.cli.output import problem_lines
from controlplane.cli.places import shown_file
from controlplane.cli.session import Output
from controlplane.core.errors import HeadgateError, InvalidBlueprint, Problem
from controlplane.settings import BadSetting

ERROR, CHANGES, USAGE = 1, 2, 64
FINE = ("up_to_date", "paused", "held")  # states that end a command with 0
TOLD = {"httpx2": "unreachable", "sqlalchemy": "database"}  # errors of libraries that users can be told


def document(error: Exception, names: Mapping[str, str]) -> dict[str, Any]:
    """The same shape as the API's problems. `names` maps absolute file names to what the user typed."""
    problem = getattr(error, "problem", None)
    if isinstance(problem, dict):
        errors = [{**e, "file": shown_file(e.get("file", ""), names)} for e in problem.get("errors", [])]
        code = str(problem.get("type", "")).removeprefix("urn:headgate:")
        return {**problem, "errors": errors or _single(code, str(error))}
    if isinstance(error, InvalidBlueprint):
        found = [asdict(replace(p, file=shown_file(p.file, names))) for p in error.problems]
        return _document(error.code, f"{len(found)} {'problem' if len(found) == 1 else 'problems'}", found)
    code, words = _code(error), _words(error) + _remedy(error)
    return _document(code, words, _single(code, words))


def _words(error: Exception) -> str:
    """What the error says, in one line, and of whom."""
    text = (str(error).splitlines() or [type(error).__name__])[0]
    asked = getattr(error, "_request", None)  # `request` of httpx2's errors raises where there was none
    return f"{asked.url}: {text}" if asked is not None else text


def _remedy(error: Exception) -> str:
    """Of a database that is no database, which only its owner can mend."""
    words = str(error)
    if "file is not a database" in words or "database disk image is malformed" in words:
        return " (metadata.db in the home: restore it from a backup, or move it away to begin anew)"
    if "unable to open database file" in words:
        return " (metadata.db in the home: is the folder there, and may this user write to it?)"
    return ""


def _code(error: Exception) -> str:
    match error:
        case HeadgateError():
            return error.code
        case BadSetting():
            return "bad-setting"
        case _:
            return TOLD.get(type(error).__module__.partition(".")[0], "system")


def _document(code: str, detail: str, errors: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"type": f"urn:headgate:{code}", "title": "failed", "detail": detail, "errors": list(errors)}


def _single(code: str, message: str) -> list[dict[str, Any]]:
    return [asdict(Problem("", 0, 0, code, message))]


def usage(message: str) -> dict[str, Any]:
    return _document("wrong-arguments", message, _single("wrong-arguments", message))


def report(value: Mapping[str, Any], output: Output) -> None:
    """Messages go to standard error; JSON and YAML also get their one document on standard output."""
    if output in ("json", "yaml"):
        sys.stdout.write(json.dumps(value, indent=2) + "\n")  # which is YAML as well
    for line in problem_lines(value["errors"]):
        sys.stderr.write(line + "\n")
