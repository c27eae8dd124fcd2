"""Every way a command can fail, as a problem document, lines on standard error, and an exit
code."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from controlplane.cli.output import problem_excerpts
from controlplane.cli.places import shown_file
from controlplane.cli.session import Output
from controlplane.core.errors import HeadgateError, InvalidBlueprint, Problem
from controlplane.settings import BadSetting

ERROR, CHANGES, USAGE = 1, 2, 64
FINE = ("up_to_date", "paused", "held")  # states that end a command with 0
# By package: errors of libraries that are reported
OF_LIBRARIES = {"httpx2": "unreachable", "sqlalchemy": "database"}


def document(error: Exception, names: Mapping[str, str]) -> dict[str, Any]:
    """The same shape as the API's problems. `names` maps absolute file names to those that the user
    typed."""
    problem = getattr(error, "problem", None)
    if isinstance(problem, dict):
        errors = [
            {**e, "file": shown_file(e.get("file", ""), names)} for e in problem.get("errors", [])
        ]
        code = str(problem.get("type", "")).removeprefix("urn:headgate:")
        return {**problem, "errors": errors or _single(code, str(error))}
    if isinstance(error, InvalidBlueprint):
        problems = [asdict(replace(p, file=shown_file(p.file, names))) for p in error.problems]
        return _document(
            error.code,
            f"{len(problems)} {'problem' if len(problems) == 1 else 'problems'}",
            problems,
        )
    code, words = _code(error), _words(error) + _remedy(error)
    return _document(code, words, _single(code, words))


def _words(error: Exception) -> str:
    """The error's text in one line, with the URL of its request."""
    text = (str(error).splitlines() or [type(error).__name__])[0]
    # `request` of httpx2's errors raises where there was none
    request = getattr(error, "_request", None)
    return f"{request.url}: {text}" if request is not None else text


def _remedy(error: Exception) -> str:
    """A hint for a service that cannot be reached, or a database file that cannot be opened."""
    words = str(error)
    if _code(error) == "unreachable":
        return " (does `headgate serve` run there? HEADGATE_URL names the address)"
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
            return OF_LIBRARIES.get(type(error).__module__.partition(".")[0], "system")


def _document(code: str, detail: str, errors: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "type": f"urn:headgate:{code}",
        "title": "failed",
        "detail": detail,
        "errors": list(errors),
    }


def _single(code: str, message: str) -> list[dict[str, Any]]:
    return [asdict(Problem("", 0, 0, code, message))]


def usage(message: str) -> dict[str, Any]:
    return _document("wrong-arguments", message, _single("wrong-arguments", message))


def report(value: Mapping[str, Any], output: Output) -> None:
    """Messages go to standard error; JSON and YAML also get their one document on standard
    output."""
    if output in ("json", "yaml"):
        sys.stdout.write(json.dumps(value, indent=2) + "\n")  # which is YAML as well
    for line in problem_excerpts(value["errors"]):
        sys.stderr.write(line + "\n")
