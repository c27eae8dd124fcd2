"""The behaviour suite of object stores on a real S3 server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from controlplane.lake.lake_objects import check_lake, open_lake
from controlplane.ports.lake import ObjectStore
from tests.unit.lake.test_objects import (  # noqa: F401  # the suite: its tests run here on the lake below
    test_a_link_outlives_its_source,
    test_a_second_put_changes_nothing,
    test_deleting_one_object_by_its_name,
    test_deleting_spares_neighbours,
    test_folders_are_the_names_directly_below,
    test_missing_objects,
    test_no_path_leaves_the_lake,
    test_one_of_many_concurrent_puts_wins,
    test_what_is_large_is_read_in_pieces,
    test_what_was_put_is_read,
)


@pytest.fixture
def lake(uri: str) -> ObjectStore:
    return open_lake(uri)


def test_the_server_keeps_the_first_of_sixteen(lake: ObjectStore) -> None:
    """The gate that any server must pass: one that checks and then writes loses commits of
    tables."""
    with ThreadPoolExecutor(16) as threads:
        won = list(
            threads.map(
                lambda i: lake.put_if_absent(f"race/{i // 16}", str(i).encode()), range(16 * 20)
            )
        )
    assert won.count(True) == 20


def test_a_server_that_serves(uri: str) -> None:
    check_lake(uri)
    check_lake(uri)
