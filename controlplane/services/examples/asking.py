"""Questions of tests that a client sends to a service: files of the client stand in for all
paths."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

from controlplane.core.errors import HeadgateError
from controlplane.core.redaction import redacted
from controlplane.services.examples.example_verdicts import MOST_ROWS
from controlplane.services.examples.port import ExampleRunner
from dataplane.contract.example_protocol import Answer, FileOfRows, Question, error_in

ASKS: Final = ("infer", "analyse", "run")
NAME_BYTES: Final = 255


class BadQuestion(HeadgateError):
    """A question that no client of ours sends."""

    code = "invalid-request"


def paths_of(question: Question) -> list[str]:
    """The files that a question names, in order."""
    return list(dict.fromkeys(file["path"] for file in _files(question)))


def _files(question: Question) -> Iterator[FileOfRows]:
    if question["ask"] == "infer":
        yield question["file"]
    if question["ask"] == "run":
        yield from question["files"].values()


def decoded(path: str, text: str) -> bytes:
    """A file's content. Raises BadQuestion."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as e:
        raise BadQuestion(f"{path!r}: its content is no base64") from e


def answer(runner: ExampleRunner, question: Question, contents: Mapping[str, bytes]) -> Answer:
    """`contents`: of each file that the question names, by its path. No file of this machine is
    read for a path.

    Raises BadQuestion, RunnerLost, QueriesBusy, EngineUnavailable.
    """
    _check(question, contents)
    with tempfile.TemporaryDirectory(prefix="headgate-test-") as folder:
        places = {
            path: _written(Path(folder), n, path, contents[path])
            for n, path in enumerate(paths_of(question))
        }
        for file in _files(question):
            file["path"] = places[file["path"]]
        reply = runner.ask(question)
    return _with_client_paths(reply, places)


def _check(question: Question, contents: Mapping[str, bytes]) -> None:
    try:
        is_known = question["ask"] in ASKS
        if question["ask"] != "infer":
            dict(question["job"])
        paths = paths_of(question)
        missing = next((path for path in paths if path not in contents), None)
        if question["ask"] == "run":
            question["limit"] = min(int(question["limit"]), MOST_ROWS + 1)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as e:
        raise BadQuestion(f"this is no question of a test: {type(e).__name__}: {e}") from e
    if not is_known:
        raise BadQuestion(f"`ask` is one of {', '.join(ASKS)}")
    if missing is not None:
        raise BadQuestion(f"the question names {missing!r}, and `files` lacks its content")


def _written(folder: Path, number: int, path: str, content: bytes) -> str:
    """Write the file under its own name, whose extension gives the compression. Raises BadQuestion
    for an invalid name."""
    name = path.replace("\\", "/").rpartition("/")[2]
    if name in ("", ".", "..") or "\0" in name or len(name.encode(errors="replace")) > NAME_BYTES:
        raise BadQuestion(f"{path!r} does not end in the name of a file")
    place = folder / str(number) / name
    place.parent.mkdir()
    place.write_bytes(content)
    return str(place)


def _with_client_paths(reply: Answer, places: Mapping[str, str]) -> Answer:
    """Errors name the files of the client."""
    error = error_in(reply)
    if error is None:
        return reply
    text = error["message"]
    for path, place in places.items():
        text = text.replace(place, path)
    return cast("Answer", json.loads(json.dumps({"error": {**error, "message": redacted(text)}})))
