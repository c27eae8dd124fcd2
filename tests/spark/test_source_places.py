"""What is true of files in every place that they are read from: the conformance suite of places. A
place declares itself in `source_places`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dataplane.contract.source_objects import ListedPartition
from dataplane.listing.files import list_files
from dataplane.listing.version_cache import Versions
from dataplane.task_failures import TaskFailure
from tests.spark.conftest import Lake, failed, read, schema_of
from tests.spark.source_places import WITH_SECRETS, SourcePlace, place

__all__ = ["place"]
HEADER = {"header": True}


def job(place: SourcePlace, **more: Any) -> Any:
    whole = {"location": place.location, "format": "csv", "options": HEADER, "partition": None}
    return {**whole, "metadata": [], "settings": place.settings, "listing": "", **more}


def listed(place: SourcePlace, cache: Versions | None = None) -> dict[str, ListedPartition]:
    """Partitions by the last part of their keys."""
    result = list_files(job(place), cache or Versions())
    return {p["key"].rpartition("/")[2]: p for p in result["partitions"]}


def rows_of(id: int, value: str, more: str = "") -> bytes:
    header, rest = ("id,v,w", f",{more}") if more else ("id,v", "")
    return f"{header}\n{id},{value}{rest}\n".encode()


def test_a_listing_says_which_files_are_others(place: SourcePlace, tmp_path: Path) -> None:
    cache = Versions(tmp_path / "cache" / "versions.db", lambda: 2**62)
    place.put("a.csv", rows_of(1, "one"))
    place.put("b.csv", rows_of(2, "two"))
    first = listed(place, cache)
    assert listed(place, cache) == first == listed(place)
    assert list(first) == ["a.csv", "b.csv"]
    assert first["a.csv"]["objects"][0]["columns"] == ["id", "v"]

    def sources() -> dict[str, str]:
        return {key: partition["source"] for key, partition in listed(place, cache).items()}

    first_sources = sources()
    place.put("c.csv", rows_of(3, "three"))  # late
    assert {k: v for k, v in sources().items() if k != "c.csv"} == first_sources
    assert list(sources()) == ["a.csv", "b.csv", "c.csv"]
    place.put("b.csv", rows_of(2, "corrected", "more"))
    second = sources()
    assert second["a.csv"] == first_sources["a.csv"]
    assert second["b.csv"] != first_sources["b.csv"]
    assert listed(place, cache)["b.csv"]["objects"][0]["columns"] == ["id", "v", "w"]
    place.remove("a.csv")  # withdrawn
    assert sources() == {key: second[key] for key in ("b.csv", "c.csv")}


def test_what_is_read_is_what_was_listed(place: SourcePlace, lake: Lake) -> None:
    contents = {"a.csv": rows_of(1, "one"), "b.csv": rows_of(2, "two"), "c.csv": rows_of(3, "x")}
    for name, content in contents.items():
        place.put(name, content)
    columns = schema_of(lake.spark, "id INT, v STRING")
    partitions = listed(place)
    tasks = [{"columns": columns, "objects": p["objects"]} for p in partitions.values()]
    whole = read("csv", options=HEADER, metadata=["name"], settings=place.settings)
    results = lake.run("parse", whole, tasks)
    assert [row for result in results for row in lake.rows(result)] == [
        {"id": id, "v": v, "_source_name": partitions[name]["objects"][0]["name"]}
        for id, v, name in [(1, "one", "a.csv"), (2, "two", "b.csv"), (3, "x", "c.csv")]
    ]
    place.put("b.csv", rows_of(2, "corrected"))
    place.remove("c.csv")
    same, changed, gone = lake.run("parse", whole, tasks)
    assert lake.rows(same) == lake.rows(results[0])
    assert changed["state"] == gone["state"] == "void"
    place.put("a.csv", b"id,v\nx,one\n")
    (objects,) = [p["objects"] for key, p in listed(place).items() if key == "a.csv"]
    (result,) = lake.run("parse", whole, [{"columns": columns, "objects": objects}])
    error = failed(result)
    assert "a.csv" in error["message"]
    assert "staged-" not in str(error)


def test_no_other_place_is_read(
    place: SourcePlace, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put("a.csv", rows_of(1, "one"))
    objects = listed(place)["a.csv"]["objects"]
    monkeypatch.setenv("HEADGATE_SOURCES", "/nowhere")
    with pytest.raises(TaskFailure, match="HEADGATE_SOURCES"):
        listed(place)
    columns = schema_of(lake.spark, "id INT, v STRING")
    whole = read("csv", options=HEADER, settings=place.settings)
    (result,) = lake.run("parse", whole, [{"columns": columns, "objects": objects}])
    assert failed(result)["condition"] == "place-refused"


@pytest.mark.parametrize("place", WITH_SECRETS, indirect=True)
def test_a_refused_secret_is_not_shown(place: SourcePlace) -> None:
    place.put("a.csv", rows_of(1, "one"))
    assert not any(secret in str(listed(place)) for secret in place.secrets)
    place.settings = place.wrong
    with pytest.raises(TaskFailure) as failure:
        listed(place)
    assert failure.value.condition in ("credentials-refused", "permission-denied")
    assert "not the secret" not in str(failure.value)
