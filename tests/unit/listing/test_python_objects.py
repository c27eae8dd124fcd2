"""Objects that a user's own code lists: what it may say, and how its errors are told."""

from __future__ import annotations

import json

import pytest

from dataplane.connectors.python.python_listing import check, partitions
from dataplane.contract.jobs import ConnectorSettings, ListJob
from dataplane.contract.schemas import Json
from dataplane.task_failures import TaskFailure
from tests.unit.listing.location import list_job


def settings(code: str, params: Json = None, lib: str = "") -> ConnectorSettings:
    texts = {"api.py": code, "lib.py": lib}
    return {"modules": json.dumps(texts), "main": "api.py", "params": json.dumps(params or {})}


def job(code: str, params: Json = None, lib: str = "") -> ListJob:
    return list_job("", connector="python", settings=settings(code, params, lib))


def listing(*objects: str) -> str:
    return f"def list(context):\n    return [{', '.join(objects)}]\n"


def failure(code: str, lib: str = "") -> TaskFailure:
    with pytest.raises(TaskFailure) as caught:
        list(partitions(job(code, lib=lib)))
    return caught.value


def test_objects_are_partitions_by_name_in_order() -> None:
    code = "def list(context):\n    return [{'name': n, 'version': 1, 'detail': [n]} for n in context.params['n']]\n"
    found = list(partitions(job(code, {"n": ["b/1", "a c", "a"]})))
    assert [p["key"] for p in found] == ["a", "a%20c", "b/1"]
    [one] = found[0]["objects"]
    assert (one["name"], one["version"], one["detail"]) == ("a", "python:1", ["a"])


def test_code_may_find_nothing() -> None:
    assert list(partitions(job(listing()))) == []


def test_a_version_that_moves_is_another_source() -> None:
    sources = [
        next(partitions(job(listing(f"{{'name': 'a', 'version': {v}}}"))))["source"]
        for v in (1, 1, 2)
    ]
    assert sources[0] == sources[1] != sources[2]


def test_parameters_may_be_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_SECRET_API_TOKEN", "hunter2-4711")
    code = (
        "def list(context):\n"
        "    raise ValueError(context if context.params['token'] == 'hunter2-4711' else 'other')\n"
    )
    told = settings(code, {"token": "secret://api/token"})
    with pytest.raises(TaskFailure) as caught:
        check(
            {"connector": "python", "place": "", "options": {}, "writes": False, "settings": told}
        )
    assert caught.value.condition == "ValueError"
    assert "Context()" in caught.value.message


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        (("{'version': 1}",), "list has to name objects"),
        (("'a'",), "list has to name objects"),
        (("{'name': 'a'}",), "needs a version"),
        (("{'name': 'a', 'version': 1, 'etag': 2}",), "no etag"),
        (("{'name': 'a', 'version': 1, 'detail': object()}",), "JSON"),
        (("{'name': 'a', 'version': 1}", "{'name': 'a', 'version': 2}"), "twice"),
    ],
)
def test_what_is_no_object_is_refused(objects: tuple[str, ...], words: str) -> None:
    found = failure(listing(*objects))
    assert (found.condition, found.file) == ("invalid-object", "api.py")
    assert words in found.message


def test_errors_name_the_users_own_lines() -> None:
    found = failure(
        "import lib\ndef list(context):\n    return lib.days()\n",
        lib="def days():\n    return 1 / 0\n",
    )
    assert found.condition == "ZeroDivisionError"
    assert (
        found.message
        == "ZeroDivisionError: division by zero <- lib.py:2 in days <- api.py:3 in list"
    )
    assert failure("import sys\ndef list(context):\n    sys.exit(3)\n").condition == "SystemExit"
