"""Secrets are found in the environment or in mounted files, and kept out of what is told of errors."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from dataplane.contract import TaskResult
from dataplane.failure import TaskFailure, error_of
from dataplane.secrets import Hiding, Printing, hidden, remember, resolved, without_secrets


def test_a_reference_is_a_variable_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "warehouse").mkdir()
    (tmp_path / "warehouse" / "url").write_text("from a file\n")
    files = {"HEADGATE_SECRETS": str(tmp_path)}
    assert resolved("secret://warehouse/url", files) == "from a file"
    assert resolved("secret://warehouse/url", {**files, "HEADGATE_SECRET_WAREHOUSE_URL": "given"}) == "given"
    assert resolved("secret://ware-house/my.url", {"HEADGATE_SECRET_WARE_HOUSE_MY_URL": "x y"}) == "x y"
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


def test_errors_and_logs_are_without_secrets() -> None:
    remember("jdbc:postgresql://h/d?user=u&password=pa%20ss%2Fword")
    remember("s3cr et/1")
    try:
        raise TaskFailure("broken", "cannot use s3cr et/1, s3cr%20et%2F1 or pa%20ss%2Fword")
    except TaskFailure as e:
        result: TaskResult = {"task": "00", "epoch": 1, "state": "failed", "error": error_of(e)}
        record = logging.makeLogRecord({"msg": "at %s", "args": ("s3cr et/1",), "exc_info": (type(e), e, None)})
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
