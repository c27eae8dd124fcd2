"""Archives that would lead elsewhere, take everything, or hide what is in them."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

from dataplane.connectors.files.copies import CopyStage
from dataplane.contract.source_objects import SourceObject
from dataplane.listing import archive_listing, archive_members
from dataplane.listing.archive_calls import list_members
from dataplane.listing.archive_members import BadArchive, members
from dataplane.listing.files import list_files
from dataplane.listing.version_cache import Versions
from dataplane.storage.source_stores import Moved
from dataplane.task_failures import TaskFailure

CSV = b"id,v\n1,one\n"


def zip_of(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, content in entries:
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return output.getvalue()


def tar_of(*entries: tuple[str, bytes, bytes], mode: str = "w") -> bytes:
    """Names, types and contents."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode=mode) as archive:  # type: ignore[call-overload]
        for name, kind, content in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.size, entry.linkname = kind, len(content), "/etc/passwd"
            archive.addfile(entry, io.BytesIO(content))
    return output.getvalue()


def unix(name: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = mode << 16
    return entry


def encrypted() -> bytes:
    """As a reader sees it: the flag stands in both headers of the member."""
    data = bytearray(zip_of(("a.csv", CSV)))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1
    return bytes(data)


def job(location: str, members: str = "**/*.csv", **more: Any) -> Any:
    whole = {"location": location, "format": "csv", "options": {"header": True}, "metadata": []}
    return {**whole, "partition": None, "settings": {"members": members}, "listing": "", **more}


def keys(folder: Path, members: str = "**/*.csv", **more: Any) -> list[str]:
    found = list_files(job(f"{folder}/*", members, **more), Versions())
    return [p["key"] for p in found["partitions"]]


REFUSED: dict[str, tuple[str, bytes, str]] = {
    "above": ("a.zip", zip_of(("../a.csv", CSV)), "'../a.csv'"),
    "above, not wanted": ("a.zip", zip_of(("x/../../a.txt", CSV)), "a.txt"),
    "absolute": ("a.zip", zip_of(("/a.csv", CSV)), "'/a.csv'"),
    "of Windows": ("a.zip", zip_of(("x\\..\\a.csv", CSV)), "leads out"),
    "drive": ("a.zip", zip_of(("C:a.csv", CSV)), "C:a.csv"),
    "link in zip": ("a.zip", zip_of((unix("a.csv", 0o120777), b"/etc/passwd")), "link"),
    "encrypted": ("a.zip", encrypted(), "encrypted"),
    "absolute in tar": ("a.tar", tar_of(("/a.csv", tarfile.REGTYPE, CSV)), "'/a.csv'"),
    "link": ("a.tar", tar_of(("a.csv", tarfile.SYMTYPE, b"")), "link"),
    "hard link": ("a.tar", tar_of(("a.csv", tarfile.LNKTYPE, b"")), "link"),
    "device": ("a.tar", tar_of(("a.csv", tarfile.CHRTYPE, b"")), "device"),
    "fifo": ("a.tar", tar_of(("a.csv", tarfile.FIFOTYPE, b"")), "device"),
    "twice": ("a.tar", tar_of(*[("a.csv", tarfile.REGTYPE, CSV)] * 2), "two members are named"),
    "no archive": ("a.csv", CSV, "reads .zip"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_an_archive_is_refused_for_a_member_that_is_no_plain_file(
    case: str, tmp_path: Path
) -> None:
    name, content, reason = REFUSED[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TaskFailure) as failure:
        keys(tmp_path)
    assert failure.value.condition == "archive-refused"
    assert reason in failure.value.message
    assert f"{tmp_path}/{name}" in failure.value.message


def test_an_archive_in_an_archive_is_refused_where_it_is_wanted(tmp_path: Path) -> None:
    inner = zip_of(("a.csv", CSV))
    (tmp_path / "a.zip").write_bytes(zip_of(("inner.zip", inner), ("a.csv", CSV)))
    assert keys(tmp_path) == ["a.zip/a.csv"]
    with pytest.raises(TaskFailure, match="archive in an archive"):
        keys(tmp_path, "**")


def test_what_is_not_wanted_is_passed_over(tmp_path: Path) -> None:
    entries = [
        ("./", tarfile.DIRTYPE, b""),
        ("./latest", tarfile.SYMTYPE, b""),
        ("./x/a.csv", tarfile.REGTYPE, CSV),
        ("./x/.hidden.csv", tarfile.REGTYPE, CSV),
    ]
    (tmp_path / "a.tar").write_bytes(tar_of(*entries))
    (tmp_path / "b.tgz").write_bytes(tar_of(*entries, mode="w:gz"))
    (tmp_path / "c.zip").write_bytes(zip_of(("x/a.csv", CSV), ("__MACOSX/x/a.csv", CSV)))
    assert keys(tmp_path) == ["a.tar/x/a.csv", "b.tgz/x/a.csv", "c.zip/x/a.csv"]
    assert keys(tmp_path, "*.csv") == []


def test_a_tar_of_zstandard_is_read(tmp_path: Path) -> None:
    with pa.CompressedOutputStream(str(tmp_path / "a.tar.zst"), "zstd") as output:
        output.write(tar_of(("a.csv", tarfile.REGTYPE, CSV)))
    assert keys(tmp_path) == ["a.tar.zst/a.csv"]


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tar.zst"])
@pytest.mark.parametrize("content", [b"", b"no archive at all" * 100])
def test_a_damaged_archive_is_an_error_not_an_empty_one(
    name: str, content: bytes, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TaskFailure) as failure:
        keys(tmp_path)
    assert failure.value.condition == "MALFORMED_FILE"


def test_an_archive_that_is_cut_short_is_an_error(tmp_path: Path) -> None:
    whole = tar_of(*((f"{i}.csv", tarfile.REGTYPE, CSV * 100) for i in range(9)), mode="w:gz")
    (tmp_path / "a.tgz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TaskFailure) as failure:
        keys(tmp_path)
    assert failure.value.condition == "MALFORMED_FILE"


def damaged_tars() -> dict[str, bytes]:
    """Of three members; each is a header and one block."""
    whole = tar_of(*((f"{i}.csv", tarfile.REGTYPE, CSV) for i in range(3)))
    packed = bytearray(gzip.compress(whole, compresslevel=0))
    packed[packed.rindex(b"one")] ^= 1
    return {
        "between members.tar": whole[:2048],
        "in a header.tar": whole[:1100],
        "bad header.tar": whole[:1024] + b"\xff" * 512 + whole[1536:],
        "bad bytes.tar.gz": bytes(packed),
    }


@pytest.mark.parametrize("name", list(damaged_tars()))
def test_no_member_of_a_damaged_tar_counts_as_removed(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(damaged_tars()[name])
    with pytest.raises(TaskFailure) as failure:
        keys(tmp_path)
    assert failure.value.condition == "MALFORMED_FILE"


@pytest.mark.parametrize("time", ["nan", "inf", "1e300"])
def test_a_time_that_is_none_is_zero(time: str, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        entry = tarfile.TarInfo("a.csv")
        entry.size, entry.pax_headers = len(CSV), {"mtime": time}
        archive.addfile(entry, io.BytesIO(CSV))
    (partition,) = list_files(job(f"{tmp_path}/*.tar"), Versions())["partitions"]
    assert partition["objects"][0]["modified_ms"] == 0


def test_an_archive_that_is_replaced_while_it_is_listed_is_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "a.zip"
    archive.write_bytes(zip_of(("a.csv", CSV)))
    cache = Versions(tmp_path / "versions.db")

    def replaced(*arguments: Any) -> Any:
        archive.write_bytes(zip_of(("another.csv", CSV)))
        return list_members(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(archive_listing, "list_members", replaced)
        with pytest.raises(Moved):
            list_files(job(f"{tmp_path}/*.zip"), cache)
    archive.write_bytes(zip_of(("a.csv", CSV)))  # the bytes, and the version, that it had
    partitions = list_files(job(f"{tmp_path}/*.zip"), cache)["partitions"]
    assert [p["key"] for p in partitions] == ["a.zip/a.csv"]


ZEROS = b"\0" * (4 << 20)
BOMBS: dict[str, Callable[[], bytes]] = {
    "zip": lambda: zip_of(("a.csv", ZEROS)),
    "tar.gz": lambda: tar_of(("a.csv", tarfile.REGTYPE, ZEROS), mode="w:gz"),
}


@pytest.mark.parametrize("kind", list(BOMBS))
def test_members_bytes_and_ratio_have_bounds(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a.{kind}"
    path.write_bytes(BOMBS[kind]())

    def read_all() -> None:
        for member in members(path, kind, lambda _: True):
            with member.open() as file:
                while file.read(1 << 20):
                    pass

    def refusal(**bounds: int) -> str:
        with monkeypatch.context() as patch:
            for name, bound in bounds.items():
                patch.setattr(archive_members, name, bound)
            with pytest.raises(BadArchive) as refused:
                read_all()
        assert refused.value.condition == "archive-too-large"
        return str(refused.value)

    assert "times its size" in refusal(FREE_BYTES=1 << 20)
    assert "unpacked" in refusal(MOST_BYTES=1 << 20)
    assert "members" in refusal(MOST_MEMBERS=0)


# --- between listing and reading ------------------------------------------------------------------


def staged(tmp_path: Path, sources: list[SourceObject]) -> list[Any]:
    folder = tmp_path / "staged"
    folder.mkdir(exist_ok=True)
    tasks: Any = [{"task": str(i), "objects": [source]} for i, source in enumerate(sources)]
    read: Any = {"format": "csv", "options": {}}
    stage = CopyStage(folder, read, tasks, Event())
    return [stage.outcome(task) for task in tasks]


def test_a_member_with_broken_bytes_fails_alone(tmp_path: Path) -> None:
    data = bytearray(zip_of(("a.csv", CSV * 50), ("b.csv", CSV)))
    (tmp_path / "a.zip").write_bytes(data)
    listed = list_files(job(f"{tmp_path}/*.zip"), Versions())["partitions"]
    data[45] ^= 0xFF
    (tmp_path / "a.zip").write_bytes(data)
    again = list_files(job(f"{tmp_path}/*.zip"), Versions())["partitions"]
    assert [p["objects"][0]["columns"] for p in again] == [None, ["id", "v"]]
    broken, sound = staged(tmp_path, [p["objects"][0] for p in listed])
    assert broken.outcome["condition"] == "MALFORMED_FILE"
    assert f"{tmp_path}/a.zip#a.csv" in broken.outcome["message"]
    assert Path(sound["objects"][0]["uri"].removeprefix("file://")).read_bytes() == CSV


def test_a_member_is_written_under_no_name_of_its_own(tmp_path: Path) -> None:
    longest = "a." + "\u4e2d" * 200
    (tmp_path / "a.zip").write_bytes(zip_of(("x/a.csv.gz", CSV), (longest, CSV)))
    *_, listed_longest = list_files(job(f"{tmp_path}/*.zip", "*"), Versions())["partitions"]
    (ready,) = staged(tmp_path, [listed_longest["objects"][0]])
    assert "objects" in ready
    (tmp_path / "a.zip").write_bytes(zip_of(("x/a.csv.gz", CSV)))
    listed = list_files(job(f"{tmp_path}/*.zip", "**"), Versions())["partitions"]
    (ready,) = staged(tmp_path, [p["objects"][0] for p in listed])
    assert Path(ready["objects"][0]["uri"]).name == "0.csv.gz"
    changed: Any = {**listed[0]["objects"][0], "version": "zip:00000000 11"}
    (void,) = staged(tmp_path, [changed])
    assert void.outcome == "void"
