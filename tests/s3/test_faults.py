"""What goes wrong between a lake and its server: told in words, or put right in silence."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controlplane.core.errors import NotFound
from controlplane.lake.lake_objects import LakeRefused, check_lake, open_lake
from controlplane.ports.lake import ObjectStore
from dataplane.storage.lake import Lake
from dataplane.storage.lake import open_lake as open_data_lake
from tests.servers.faulty import Faulty
from tests.servers.s3 import S3

MORE_THAN_ONE_READ = 300_000
BODY = bytes(range(256)) * 2000


def test_a_server_that_is_busy_is_asked_again(line: Faulty, uri: str) -> None:
    busy = [
        line.add("slow-down", method, "", times=2) for method in ("PUT", "GET", "DELETE", "POST")
    ]
    lake = open_lake(uri)
    assert lake.put_if_absent("a/b", BODY)
    assert lake.read("a/b") == BODY
    assert lake.sizes("a") == {"a/b": len(BODY)}
    lake.link("a/b", "c/d")
    lake.delete_prefix("a")
    assert lake.sizes("") == {"c/d": len(BODY)}
    assert [fault.met for fault in busy[:2]] == [2, 2]


def test_an_answer_that_is_cut_is_read_to_its_end(line: Faulty, uri: str) -> None:
    lake = open_lake(uri)
    lake.put_if_absent("a", BODY)
    cut = line.add("cut", "GET", "/a$", times=2)
    assert lake.read("a") == BODY
    assert b"".join(lake.stream("a")) == BODY
    assert cut.met == 2


def test_rows_are_read_through_answers_that_are_cut(line: Faulty, uri: str) -> None:
    lake = open_data_lake(uri)
    with lake.new_file("a.parquet") as file:
        pq.write_table(pa.table({"n": range(MORE_THAN_ONE_READ)}), file, compression="none")
    cut = line.add("cut", "GET", "parquet", times=3)
    assert pq.read_table(lake.open("a.parquet"))["n"].to_pylist() == list(range(MORE_THAN_ONE_READ))
    assert cut.met == 3


def test_a_put_that_was_done_and_not_answered_is_ours(line: Faulty, uri: str) -> None:
    """The client repeats it, and is told 412: what is there is what it put."""
    lakes: list[ObjectStore | Lake] = [open_lake(uri), open_data_lake(uri)]
    for number, lake in enumerate(lakes):
        lost = line.add("unanswered", "PUT", f"/{number}$")
        assert lake.put_if_absent(str(number), b"mine")
        assert not lake.put_if_absent(str(number), b"other")
        assert lost.met == 1


def test_a_put_that_somebody_else_did_meanwhile_is_not(line: Faulty, uri: str) -> None:
    lake = open_lake(uri)
    line.add("slow-down", "PUT", "/x$")
    lake.put_if_absent("x", b"theirs")
    assert not lake.put_if_absent("x", b"mine")


def test_a_copy_and_a_deletion_that_were_not_answered(line: Faulty, uri: str) -> None:
    lake = open_lake(uri)
    lake.put_if_absent("a/x", b"body")
    lost = [line.add("unanswered", "PUT", "/b$"), line.add("unanswered", "POST", "delete")]
    lake.link("a/x", "b")
    assert lake.read("b") == b"body"
    lake.delete_prefix("a")
    assert [fault.met for fault in lost] == [1, 1]
    assert lake.sizes("") == {"b": 4}


def test_wrong_credentials(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    with pytest.raises(LakeRefused, match=r"refuses the credentials \(SignatureDoesNotMatch") as e:
        check_lake(uri)
    assert "not-the-secret" not in str(e.value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    with pytest.raises(LakeRefused, match=r"refuses the credentials \(.*access key"):
        check_lake(uri)
    for ask in (lambda: open_lake(uri).sizes("a"), lambda: open_lake(uri).read("a")):
        with pytest.raises(OSError, match="access key"):  # and not "nothing there"
            ask()


def test_a_bucket_that_is_not_there(uri: str) -> None:
    with pytest.raises(LakeRefused, match="s3://nowhere/x: there is no such bucket"):
        check_lake("s3://nowhere/x")
    lake = open_lake("s3://nowhere/x")
    for ask in (lambda: lake.sizes("a"), lambda: lake.read("a"), lambda: lake.folders("")):
        with pytest.raises(OSError, match="no such bucket"):  # and not "nothing there"
            ask()


def test_an_object_that_is_not_there(uri: str) -> None:
    with pytest.raises(NotFound):
        open_lake(uri).read("a")


def test_a_server_that_does_not_know_conditions(line: Faulty, uri: str) -> None:
    line.add("unconditional", "PUT", "", times=9)
    with pytest.raises(LakeRefused, match="overwrites what a conditional put"):
        check_lake(uri)


def test_a_server_that_restarts_is_waited_for(s3: S3, uri: str) -> None:
    lake = open_lake(uri)
    lake.put_if_absent("a", b"body")
    s3.stop()
    with ThreadPoolExecutor(1) as threads:
        read = threads.submit(lake.read, "a")
        s3.start()
        assert read.result() == b"body"
