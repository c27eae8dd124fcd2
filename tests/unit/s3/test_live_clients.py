"""Clients that read main and a branch through the view, before and after a commit: equal rows,
whatever they read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars
import pyarrow.dataset
import pytest
from deltalake import DeltaTable
from pyarrow.fs import S3FileSystem

from controlplane.core.model.projections import TableContent
from controlplane.core.s3.live_log import STEPS
from controlplane.lake.publisher import DeltaPublisher
from controlplane.operations.projections import compaction
from tests.unit.lake.tables import Rows
from tests.unit.s3.test_endpoint import Served, serve
from tests.unit.s3.world import SCHEMA

STEP = STEPS[0][1]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path, "main", "dev") as found:
        yield found


@pytest.fixture
def publisher(served: Served) -> Iterator[DeltaPublisher]:
    made = DeltaPublisher(served.world.lake.uri)
    yield made
    made.close()


def rows(branch: str, generation: int) -> Rows:
    return [{"k": n, "v": f"{branch} {max(generation - n, 0)}"} for n in range(3)]


def commit(served: Served, publisher: DeltaPublisher, branch: str, generation: int) -> None:
    """A generation, which changes some partitions; main's is published."""
    served.world.now[0] += 1
    parts = {f"n={row['k']}": [row] for row in rows(branch, generation)}
    state, _ = served.world.commit("shop.a", parts, branch)
    if branch == "main":
        with served.world.store.read() as tx:
            fragments = tuple(compaction.fragments(tx, state.root))
        publisher.publish(TableContent("default/shop/a", SCHEMA, fragments, generation, "shop.a"))


def ordered(found: list[dict[str, Any]]) -> Rows:
    return sorted(found, key=lambda row: row["k"])


def read_by_all(served: Served, branch: str, generation: str = "") -> dict[str, Rows]:
    """`branch` may have a time, and `generation` is empty or one of the dataset: `@2`."""
    folder = f"{branch}/shop/a{generation}"
    address = f"s3://default/{folder}"
    files = S3FileSystem(
        access_key=served.key["access_key"],
        secret_key=served.key["secret_key"],
        endpoint_override=served.url,
        region="us-east-1",
    )
    names = [
        name
        for name in served.names(f"{folder}/")
        if name.endswith(".parquet") and "_log/" not in name
    ]
    parquet = pyarrow.dataset.dataset(
        [f"default/{name}" for name in names], filesystem=files, format="parquet"
    )
    options = served.options
    return {
        "deltalake": ordered(
            DeltaTable(address, storage_options=options).to_pyarrow_table().to_pylist()
        ),
        "polars, Delta": ordered(polars.read_delta(address, storage_options=options).to_dicts()),
        "polars, Parquet": ordered(
            polars.read_parquet(f"{address}/*.parquet", storage_options=options).to_dicts()
        ),
        "pyarrow": ordered(parquet.to_table().to_pylist()),
    }


def test_main_and_a_branch_are_read_alike_before_and_after_a_commit(
    served: Served, publisher: DeltaPublisher
) -> None:
    commit(served, publisher, "main", 1)
    served.world.branch("dev")
    assert read_by_all(served, "dev") == read_by_all(served, "main")
    served.world.seqs["dev", "shop.a"] = 1
    commit(served, publisher, "dev", 2)
    for branch, generation in (("main", 1), ("dev", 2)):
        found = read_by_all(served, branch)
        assert found == dict.fromkeys(found, rows(branch, generation))
    commit(served, publisher, "main", 2)
    commit(served, publisher, "dev", 3)
    for branch, generation in (("main", 2), ("dev", 3)):
        found = read_by_all(served, branch)
        assert found == dict.fromkeys(found, rows(branch, generation))


def test_generations_and_times_are_read_alike_by_all(
    served: Served, publisher: DeltaPublisher
) -> None:
    """Of main, and of a branch that has states of its own."""
    commit(served, publisher, "main", 1)
    served.world.branch("dev")
    served.world.seqs["dev", "shop.a"] = 1
    for generation in (2, 3):
        commit(served, publisher, "dev", generation)
        commit(served, publisher, "main", generation)
    for address, at, branch, generation in (
        ("main", "", "main", 3),
        ("main", "@2", "main", 2),
        ("main@20251125T120001Z", "", "main", 1),  # a second after noon
        ("dev", "", "dev", 3),
        ("dev", "@2", "dev", 2),
    ):
        found = read_by_all(served, address, at)
        assert found == dict.fromkeys(found, rows(branch, generation)), (address, at)


def test_a_reader_goes_on_from_the_version_that_it_has(
    served: Served, publisher: DeltaPublisher
) -> None:
    """Also past the place where the log has begun since."""
    commit(served, publisher, "main", 1)
    served.world.branch("dev")
    served.world.seqs["dev", "shop.a"] = 1
    commit(served, publisher, "dev", 2)
    table = DeltaTable("s3://default/dev/shop/a", storage_options=served.options)
    assert table.version() == 2
    for generation in (3, 4):
        commit(served, publisher, "dev", generation)
        table.update_incremental()
        assert table.version() == generation
        assert ordered(table.to_pyarrow_table().to_pylist()) == rows("dev", generation)
    for generation in range(5, 3 * STEP + 1):
        commit(served, publisher, "dev", generation)
    table.update_incremental()
    assert table.version() == 3 * STEP
    assert ordered(table.to_pyarrow_table().to_pylist()) == rows("dev", 3 * STEP)
    found = read_by_all(served, "dev")
    assert found == dict.fromkeys(found, rows("dev", 3 * STEP))
    old = DeltaTable(
        "s3://default/dev/shop/a", version=2 * STEP + 3, storage_options=served.options
    )
    assert ordered(old.to_pyarrow_table().to_pylist()) == rows("dev", 2 * STEP + 3)
