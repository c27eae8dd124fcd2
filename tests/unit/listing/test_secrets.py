"""Secrets are found in the environment or in mounted files, and kept out of what is told of
errors."""

from __future__ import annotations

import json
import logging
from base64 import b64encode, urlsafe_b64encode
from collections import deque
from pathlib import Path
from urllib.parse import quote

import pytest

from dataplane import secrets
from dataplane.contract.results import CheckAnswer, ConnectAnswer, TaskAnswer, TaskResult
from dataplane.contract.schemas import Json
from dataplane.secrets import (
    Hiding,
    Printing,
    hidden,
    named_by,
    remember,
    remember_lent,
    resolved,
    take,
    without_secrets,
    without_secrets_in,
)
from dataplane.task_failures import TaskFailure, error_of


@pytest.fixture(autouse=True)
def of_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test takes and remembers is a process's for good: tests of other files may run in this
    process later."""
    monkeypatch.setattr(secrets, "_received", {})
    monkeypatch.setattr(secrets, "_hidden", set())
    monkeypatch.setattr(secrets, "_pattern", None)
    monkeypatch.setattr(secrets, "_lent", deque(maxlen=secrets.MOST_LENT))


def test_a_reference_is_a_variable_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "warehouse").mkdir()
    (tmp_path / "warehouse" / "url").write_text("from a file\n")
    files = {"HEADGATE_SECRETS": str(tmp_path)}
    assert resolved("secret://warehouse/url", files) == "from a file"
    assert (
        resolved("secret://warehouse/url", {**files, "HEADGATE_SECRET_WAREHOUSE_URL": "given"})
        == "given"
    )
    assert (
        resolved("secret://ware-house/my.url", {"HEADGATE_SECRET_WARE_HOUSE_MY_URL": "x y"})
        == "x y"
    )
    assert resolved("plain text", {}) == "plain text"


@pytest.mark.parametrize(
    "reference", ["secret://a/b", "secret://a/../b", "secret://../b/c", "secret://a", "secret:///x"]
)
def test_no_value_is_an_error_in_words(reference: str, tmp_path: Path) -> None:
    (tmp_path / "b").write_text("not to be reached")
    (tmp_path / "a").mkdir()
    with pytest.raises(TaskFailure) as caught:
        resolved(reference, {"HEADGATE_SECRETS": str(tmp_path / "a")})
    assert caught.value.condition == "secret-missing"
    assert reference in caught.value.message


def test_an_error_names_the_variable_that_is_read() -> None:
    with pytest.raises(TaskFailure, match="set HEADGATE_SECRET_A__B_C,"):
        resolved("secret://a--b/c", {})
    assert resolved("secret://a--b/c", {"HEADGATE_SECRET_A__B_C": "value"}) == "value"


def test_errors_and_logs_are_without_secrets() -> None:
    remember("jdbc:postgresql://h/d?user=u&password=pa%20ss%2Fword")
    remember("s3cr et/1")
    try:
        raise TaskFailure("broken", "cannot use s3cr et/1, s3cr%20et%2F1 or pa%20ss%2Fword")
    except TaskFailure as e:
        result: TaskResult = {"task": "00", "epoch": 1, "state": "failed", "error": error_of(e)}
        record = logging.makeLogRecord(
            {"msg": "at %s", "args": ("s3cr et/1",), "exc_info": (type(e), e, None)}
        )
    [told] = without_secrets([result])
    assert "s3cr" not in repr(told)
    assert "pa%20ss" not in repr(told)
    assert told["error"]["message"] == "cannot use ***, *** or ***"
    assert "s3cr" not in Hiding("%(message)s").format(record)
    assert hidden("nothing of it") == "nothing of it"


def test_what_is_printed_is_told_at_once_and_without_secrets(tmp_path: Path) -> None:
    remember("s3cr et/2")
    log = tmp_path / "log"
    with log.open("w", encoding="utf-8") as file:
        out = Printing(file)
        print("the key", "s3cr et/2", "ö\udcff", file=out)
        assert log.read_text("utf-8") == "the key *** ö\\udcff\n"
        assert out.fileno() == file.fileno()


def test_all_secrets_of_the_start_are_hidden_and_leave_the_environment(tmp_path: Path) -> None:
    (tmp_path / "mail").mkdir()
    (tmp_path / "mail" / "key").write_text("of-a-file-7\nsecond-line-7\n")
    environ = {
        "HEADGATE_SECRET_NOT_ASKED_FOR": "nobody-asked-7",
        "HEADGATE_SECRET_SHORT": "ab",
        "HEADGATE_SECRETS": str(tmp_path),
        "AWS_SECRET_ACCESS_KEY": "of-the-store-7",
        "PATH": "/usr/bin",
    }
    assert take(environ) == ["HEADGATE_SECRET_SHORT"]
    assert environ.keys() == {"HEADGATE_SECRETS", "AWS_SECRET_ACCESS_KEY", "PATH"}
    told = hidden("nobody-asked-7 of-a-file-7 second-line-7 of-the-store-7 /usr/bin ab")
    assert told == "*** *** *** *** /usr/bin ab"
    assert resolved("secret://not/asked_for") == "nobody-asked-7"


def test_a_job_is_given_the_secrets_that_it_names(tmp_path: Path) -> None:
    take({"HEADGATE_SECRET_API_TOKEN": "named-8", "HEADGATE_SECRET_OTHER_TOKEN": "other-8"})
    job = {
        "settings": {
            "params": json.dumps({"token": "secret://api/token", "to": "secret://no/where"})
        }
    }
    assert named_by(job) == {"HEADGATE_SECRET_API_TOKEN": "named-8"}


@pytest.mark.parametrize("before", ["", "u:", "me:"])
def test_encodings_are_hidden(before: str) -> None:
    remember('pä"ss wörd/9')
    for code in (b64encode, urlsafe_b64encode):
        told = hidden(code(f'{before}pä"ss wörd/9'.encode()).decode())
        assert "***" in told
        assert len(told.replace("***", "")) <= 8
    for text in (json.dumps('pä"ss wörd/9'), quote('pä"ss wörd/9'), repr('pä"ss wörd/9')):
        assert "***" in hidden(text)


def test_the_last_values_that_others_lend_are_hidden() -> None:
    """A server may lend a new one for each task of a process that runs for months."""
    names = [f"a-token-of-number/{number:04}" for number in range(secrets.MOST_LENT + 1)]
    for name in names * 2:
        remember_lent(name)
    assert hidden(f"{names[1]}, {quote(names[-1], safe='')}") == "***, ***"
    assert hidden(names[0]) == names[0]
    remember_lent(f"sv=2026&sig={names[0]}")
    assert hidden(f"?sig={names[0]}&sv=2026") == "?sig=***&sv=2026"
    assert len(secrets._lent) == secrets.MOST_LENT
    assert secrets._hidden == set()


def test_words_are_hidden_before_they_are_cut() -> None:
    remember("quite-a-long-secret-10")
    error = error_of(TaskFailure("broken", "x" * 1990 + "quite-a-long-secret-10"))
    assert without_secrets_in(error)["message"].endswith("x***")


def done(answer: TaskAnswer) -> TaskResult:
    return {"task": "00", "epoch": 1, "state": "done", "result": answer}


def test_answers_keep_names_exact_and_hide_words() -> None:
    remember("orders-11")
    error = error_of(TaskFailure("refused", "orders-11"))
    tried: ConnectAnswer = {"connector": "files", "place": "s3://b/orders-11", "error": error}
    checked: CheckAnswer = {"rows": 1, "failing": 1, "examples": ["id=orders-11"]}
    told: list[Json] = [one["result"] for one in without_secrets([done(tried), done(checked)])]
    assert told[0]["place"] == "s3://b/orders-11"
    assert told[0]["error"]["message"] == "***"
    assert told[1]["examples"] == ["id=***"]
