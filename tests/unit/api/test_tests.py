"""Tests of blueprints that a service's Spark answers: only files of the client are read, and a
client that is refused starts its own process."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.cli.example_runner import MOST_BYTES, example_runner
from controlplane.cli.session import Session
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.services.examples.adapter.process import ExampleProcess
from controlplane.services.examples.adapter.shared_examples import SharedExamples
from controlplane.services.examples.port import ExampleRunner, RunnerLost
from tests.unit.api.world import World, serving
from tests.unit.drivers.test_example_process import infer

ANSWERS = """
import json, os, pathlib, sys
for line in sys.stdin:
    path = pathlib.Path(json.loads(line)["file"]["path"])
    if path.name == "dies":
        os._exit(3)
    error = {"message": f"{path}: {path.read_text()}", "condition": sys.argv[1], "kind": "user"}
    print(json.dumps({"error": error}), flush=True)
"""


def process(word: str) -> ExampleProcess:
    return ExampleProcess({"PATH": "/usr/bin"}, (sys.executable, "-c", ANSWERS, word))


@pytest.fixture
def place(world: World) -> Iterator[World]:
    shared = SharedExamples(60.0, lambda: process("service"))
    services = replace(world.services, examples=shared)
    with serving(services) as url:
        yield replace(world, url=url, services=services)
    shared.close()


def body(path: str, content: bytes | None = b"rows") -> dict[str, Any]:
    files = {} if content is None else {path: b64encode(content).decode()}
    return {"question": infer(path), "files": files}


def test_files_come_with_the_question(place: World) -> None:
    with place.http() as http:
        found = http.post("/v1/tests", json=body("/data/a.csv.gz")).json()
    # Not the copy of this machine
    assert found["answer"]["error"]["message"] == "/data/a.csv.gz: rows"


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        ("/etc/hostname", None, "'/etc/hostname', and `files` lacks its content"),
        ("", b"rows", "'' does not end in the name of a file"),
        ("/data/..", b"rows", "'/data/..' does not end in the name of a file"),
        ("/data/\0", b"rows", "does not end in the name of a file"),
        ("x" * 300, b"rows", "does not end in the name of a file"),
    ],
)
def test_no_file_of_the_service_s_machine_is_read(
    place: World, path: str, content: bytes | None, words: str
) -> None:
    with place.http() as http:
        answer = http.post("/v1/tests", json=body(path, content))
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:headgate:invalid-request")
    assert words in answer.json()["detail"]


def test_content_that_is_no_base64_is_refused(place: World) -> None:
    with place.http() as http:
        answer = http.post("/v1/tests", json={**body("/a.csv"), "files": {"/a.csv": "?"}})
    assert (answer.status_code, answer.json()["detail"]) == (
        422,
        "'/a.csv': its content is no base64",
    )


@pytest.mark.parametrize(
    "question",
    [{}, {"ask": "else"}, {"ask": "infer", "file": []}, {"ask": "run"}, {"ask": "run", "job": 1}],
)
def test_what_is_no_question_is_refused(place: World, question: dict[str, Any]) -> None:
    with place.http() as http:
        answer = http.post("/v1/tests", json={"question": question})
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:headgate:invalid-request")


def test_another_namespace_has_no_part_in_it(place: World) -> None:
    with place.http() as http:
        assert http.post("/v1/namespaces", json={"name": "team-a"}).is_success
    theirs, _ = tokens.create(Context(place.services.store, "team-a"), "theirs", ("edit",))
    with place.http(theirs) as http:
        answer = http.post("/v1/tests", json=body("/data/a.csv"))
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:headgate:not-supported")


class Means:
    def examples(self) -> AbstractContextManager[ExampleRunner]:
        return process("own")


@contextmanager
def runner(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExampleRunner]:
    monkeypatch.setenv("HEADGATE_URL", world.url)
    monkeypatch.setenv("HEADGATE_TOKEN", world.admin)
    with example_runner(Session(Means())) as found:  # type: ignore[arg-type]  # the part that is used
        yield found


def who(found: ExampleRunner, path: Path) -> str:
    answer: Any = found.ask(infer(str(path)))
    assert answer["error"]["message"] == f"{path}: {path.read_text()}"
    return str(answer["error"]["condition"])


def test_the_command_asks_the_service(
    place: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large, dies = tmp_path / "small.csv", tmp_path / "large.csv", tmp_path / "dies"
    small.write_text("1")
    large.write_text("1" * (MOST_BYTES + 1))
    dies.write_text("")
    with runner(place, monkeypatch) as found:
        assert [who(found, path) for path in (small, large, small)] == ["service", "own", "service"]
        with pytest.raises(RunnerLost, match="ended without an answer"):
            found.ask(infer(str(dies)))
        assert who(found, small) == "service"


def test_a_service_that_refuses_is_asked_once(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1")
    with runner(world, monkeypatch) as found:
        assert [who(found, file), who(found, file)] == ["own", "own"]
    assert capsys.readouterr().err.count("Spark starts here") == 1
