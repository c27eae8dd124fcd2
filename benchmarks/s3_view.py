"""What the S3 view costs: a listing of 100,000 keys, HEAD, and GET of a large file beside the
disk's own speed.

    python benchmarks/s3_view.py [--keys 100000] [--megabytes 512] [--rounds 5] [--keep]

The client is obstore, whose work is not counted. GET and reading the file take turns. `--keep`
writes benchmarks/results/s3_view.json. Does not belong here: the service (`tests.servers.s3_view`).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import obstore

from benchmarks import pages
from benchmarks.processes import cpu_of
from tests.servers.s3_view import LARGE, MANY, Running, running

RESULTS = Path(__file__).parent / "results" / "s3_view.json"
HEADS = 1000
PIECE = 1 << 20


def main() -> None:
    asked = _arguments()
    with (
        tempfile.TemporaryDirectory(dir=asked.folder) as folder,
        running(Path(folder), asked.keys, asked.megabytes) as place,
    ):
        found = {
            "keys": asked.keys,
            "megabytes": asked.megabytes,
            **_listed(place, asked.keys, asked.rounds),
            **_headed(place, asked.rounds),
            **_got(place, asked.rounds),
        }
    lines = _table(found)
    sys.stdout.write("\n".join(lines) + "\n")
    if asked.keep:
        result = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            **pages.machine(),
            **found,
        }
        told = "Measured on {at}, commit {commit}, Python {python}, {cores} cores with a load of {load[0]}."
        pages.keep(
            RESULTS,
            result,
            "s3-view",
            [*lines, "", told.format(**{**result, "at": result["at"][:10]})],
        )


def _cost(place: Running, work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the clock, and of the service's processors."""
    before, began = cpu_of(place.process.pid), time.perf_counter()
    work()
    return time.perf_counter() - began, cpu_of(place.process.pid) - before


def _listed(place: Running, keys: int, rounds: int) -> dict[str, float]:
    """The first listing reads the tree, and later ones find it in memory."""
    store = place.store()

    def work() -> None:
        listed = sum(map(len, obstore.list(store, prefix=MANY, chunk_size=1000)))
        assert listed == keys, listed

    costs = [_cost(place, work) for _ in range(rounds)]
    again = costs[1:] or costs
    first_page = [
        _cost(place, lambda: obstore.list_with_delimiter(store, prefix="main/flights/"))[0]
    ]
    return {
        "list_first_cpu_s": round(costs[0][1], 2),
        "list_cpu_s": round(median(cpu for _, cpu in again), 2),
        "list_wall_s": round(median(wall for wall, _ in again), 2),
        "folders_wall_ms": round(1000 * first_page[0], 1),
    }


def _headed(place: Running, rounds: int) -> dict[str, float]:
    """By one client, which keeps its connection."""
    store = place.store()
    first = next(iter(obstore.list(store, prefix=MANY, chunk_size=HEADS)))
    names = [found["path"] for found in first]

    def work() -> None:
        for name in names:
            obstore.head(store, name)

    costs = [_cost(place, work) for _ in range(rounds)]
    return {
        "head_cpu_ms": round(1000 * median(cpu for _, cpu in costs) / len(names), 2),
        "head_wall_ms": round(1000 * median(wall for wall, _ in costs) / len(names), 2),
    }


def _got(place: Running, rounds: int) -> dict[str, float]:
    """By turns: the file as it is read from the disk, and by GET; both out of the disk, then both
    out of memory."""
    store = place.store()
    [[found]] = obstore.list(store, prefix=LARGE)

    def get() -> None:
        pieces = obstore.get(store, found["path"]).stream(min_chunk_size=PIECE)
        assert sum(map(len, pieces)) == found["size"]

    results = dict[str, float]()
    for name, prepare in (("cold", _forget), ("warm", _read)):
        disk, view = list[float](), list[tuple[float, float]]()
        for _ in range(rounds):
            prepare(place.file)
            began = time.perf_counter()
            _read(place.file)
            disk.append(time.perf_counter() - began)
            prepare(place.file)
            view.append(_cost(place, get))
        size = found["size"] / 1e6
        results[f"disk_{name}_mb_s"] = round(size / median(disk))
        results[f"get_{name}_mb_s"] = round(size / median(wall for wall, _ in view))
        results[f"get_{name}_share"] = round(
            median(d / wall for d, (wall, _) in zip(disk, view, strict=True)), 2
        )
        results[f"get_{name}_cpu_s"] = round(median(cpu for _, cpu in view), 2)
    return results


def _forget(file: Path) -> None:
    """What of the file is in the system's memory."""
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read(file: Path) -> None:
    with file.open("rb", buffering=0) as opened:
        while opened.read(PIECE):
            pass


def _table(found: Mapping[str, float]) -> list[str]:
    keys, size = f"{found['keys']:,} keys", f"{found['megabytes']} MB"
    rows = [
        (
            f"listing of {keys}, processor",
            "3 s",
            f"{found['list_cpu_s']} s (the first one {found['list_first_cpu_s']} s)",
        ),
        (f"listing of {keys}, clock", "", f"{found['list_wall_s']} s"),
        (
            "folders of a dataflow, one of which has them all, clock",
            "",
            f"{found['folders_wall_ms']} ms",
        ),
        ("HEAD, processor", "1.5 ms", f"{found['head_cpu_ms']} ms"),
        ("HEAD, clock", "", f"{found['head_wall_ms']} ms"),
    ]
    for name, words in (("cold", "from the disk"), ("warm", "from the system's memory")):
        speed = f"{found[f'get_{name}_mb_s']} of {found[f'disk_{name}_mb_s']} MB/s"
        target = "60 %" if name == "cold" else ""
        rows.append(
            (
                f"GET of {size} {words} / reading the file",
                target,
                f"{found[f'get_{name}_share']:.0%} ({speed})",
            )
        )
    rows.append((f"GET of {size}, processor", "", f"{found['get_warm_cpu_s']} s"))
    return [
        "| what | target | median |",
        "|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What the S3 view costs.")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="write the result and the page")
    parser.add_argument("--folder", type=Path, help="where the files are to lie, for a while")
    return parser.parse_args()


if __name__ == "__main__":
    main()
