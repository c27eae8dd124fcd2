"""The behaviour suite of object stores on a real HDFS, and what is its own: who may write, servers
that are away."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hdfs_native import Client, WriteOptions

from controlplane.lake.lake_objects import LakeRefused, check_lake, open_lake
from controlplane.ports.lake import ObjectStore
from dataplane.lakes.hdfs import SETTINGS
from tests.servers.hdfs import Hdfs, settings
from tests.servers.ports import free_port
from tests.unit.lake.test_objects import (  # noqa: F401  # the suite: its tests run here on the lake below
    test_a_link_outlives_its_source,
    test_a_second_put_changes_nothing,
    test_deleting_one_object_by_its_name,
    test_deleting_spares_neighbours,
    test_folders_are_the_names_directly_below,
    test_missing_objects,
    test_no_path_leaves_the_lake,
    test_sizes_are_of_all_objects_below_a_folder,
    test_what_is_large_is_read_in_pieces,
    test_what_was_put_is_read,
)


@pytest.fixture
def lake(uri: str) -> ObjectStore:
    return open_lake(uri)


def test_one_of_many_concurrent_puts_wins(lake: ObjectStore) -> None:
    with ThreadPoolExecutor(16) as threads:
        won = list(
            threads.map(
                lambda i: lake.put_if_absent(f"race/{i // 16}", str(i).encode()), range(16 * 4)
            )
        )
    assert won.count(True) == 4
    bodies = {lake.read(f"race/{i}") for i in range(4)}
    assert bodies == {str(i).encode() for i, is_first in enumerate(won) if is_first}
    assert set(lake.sizes("")) == {f"race/{i}" for i in range(4)}


def test_the_same_put_again_is_ours(lake: ObjectStore) -> None:
    assert lake.put_if_absent("a", b"one")
    assert lake.put_if_absent("a", b"one")


def test_a_link_to_another_file_is_refused(lake: ObjectStore) -> None:
    lake.put_if_absent("a", b"one")
    lake.put_if_absent("b", b"other")
    with pytest.raises(FileExistsError):
        lake.link("a", "b")


def test_what_a_crash_left_is_no_object(hdfs: Hdfs, uri: str, lake: ObjectStore) -> None:
    lake.put_if_absent("a/b", b"1")
    left = f"{urlsplit(uri).path}/a/.tmp-left"
    with Client(hdfs.url).create(left, WriteOptions()) as file:
        file.write(b"par")
    assert lake.sizes("") == {"a/b": 1}


def test_a_server_that_serves(uri: str) -> None:
    check_lake(uri)
    check_lake(uri)


def test_who_may_not_write_is_told_at_once(
    hdfs: Hdfs, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_lake(uri)
    monkeypatch.setenv("HADOOP_USER_NAME", "nobody-we-know")
    with pytest.raises(
        LakeRefused, match=r"HDFS refuses .*Permission denied: user=nobody-we-know"
    ) as e:
        check_lake(f"{hdfs.url}/another")
    assert "\\n" not in str(e.value)
    assert "org.apache" not in str(e.value)


def test_who_may_not_even_look_is_told_so(
    hdfs: Hdfs, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_lake(uri)
    Client(hdfs.url).set_permission(urlsplit(uri).path, 0o700)
    monkeypatch.setenv("HADOOP_USER_NAME", "nobody-we-know")
    with pytest.raises(
        LakeRefused, match=r"Permission denied: user=nobody-we-know, access=EXECUTE"
    ):
        check_lake(uri)


def test_a_name_that_no_setting_explains(uri: str) -> None:
    with pytest.raises(LakeRefused, match="HADOOP_CONF_DIR"):
        open_lake("hdfs://nameservice1/lake")


def test_a_nameservice_is_found_by_the_settings_of_hadoop(
    hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its two NameNodes one is away."""
    addresses = {
        f"dfs.namenode.rpc-address.ns.{n}": f"127.0.0.1:{p}"
        for n, p in (("a", free_port()), ("b", hdfs.port))
    }
    provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
    named = {
        "dfs.nameservices": "ns",
        "dfs.ha.namenodes.ns": "a,b",
        "dfs.client.failover.proxy.provider.ns": provider,
    }
    settings(tmp_path / "hdfs-site.xml", named | addresses)
    settings(tmp_path / "core-site.xml", {})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    uri = "hdfs://ns/lakes/of-a-nameservice"
    check_lake(uri)
    write_deltalake(f"{uri}/table", pa.table({"n": [1, 2]}))
    assert open_lake(f"{hdfs.url}/lakes/of-a-nameservice").sizes("table/_delta_log").keys() == {
        "table/_delta_log/00000000000000000000.json"
    }
    assert DeltaTable(f"{uri}/table").to_pyarrow_table().num_rows == 2


def test_nobody_there_is_a_fault_and_nothing_else(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SETTINGS, "dfs.client.failover.max.attempts", "1")
    address = f"hdfs://127.0.0.1:{free_port()}/lake"
    away = open_lake(address)
    for ask in (
        lambda: check_lake(address),
        lambda: away.sizes("a"),
        lambda: away.read("a"),
        lambda: list(away.folders("")),
    ):
        with pytest.raises(OSError, match="refused"):
            ask()


def test_a_server_that_comes_back_is_found_again(hdfs: Hdfs, lake: ObjectStore) -> None:
    lake.put_if_absent("before", b"1")
    hdfs.stop()
    hdfs.start()
    assert lake.read("before") == b"1"
    assert lake.put_if_absent("after", b"2")
    assert lake.sizes("") == {"before": 1, "after": 1}
