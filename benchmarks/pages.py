"""Where results go: the page that shows them, and on what machine they were measured. Does not
belong here: numbers."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "performance.md"


def machine() -> dict[str, Any]:
    java = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr.splitlines()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    return {
        "commit": commit.strip() + ("+" if changed.strip() else ""),
        "cores": os.cpu_count(),
        "load": [round(v, 1) for v in os.getloadavg()],
        "python": platform.python_version(),
        "java": java[0] if java else "",
        "spark": version("pyspark"),
        "delta_spark": version("delta-spark"),
        "deltalake": version("deltalake"),
    }


def where(result: Any) -> str:
    """The machine of a result, in words."""
    return "Spark {spark}, {java}, Python {python}, {cores} cores with a load of {load[0]}".format(
        **result
    )


def keep(results: Path, result: Any, mark: str, lines: Sequence[str]) -> None:
    """A result: appended to all, shown in these lines, and put between the marks of the page."""
    store(results, [*known_in(results), result])
    print("\n".join(lines))
    write(mark, lines)


def known_in(results: Path) -> list[Any]:
    """What was kept before."""
    known: list[Any] = json.loads(results.read_text()) if results.exists() else []
    return known


def store(results: Path, every: Sequence[Any]) -> None:
    """In place of what was kept before."""
    results.parent.mkdir(exist_ok=True)
    results.write_text(json.dumps(every, indent=1) + "\n")


def between(mark: str, page: Path) -> list[str]:
    """The lines that stand between the marks of a page."""
    start, end = _marks(mark)
    return page.read_text().partition(start)[2].partition(end)[0].strip().splitlines()


def write(mark: str, lines: Iterable[str], page: Path = PAGE) -> None:
    """Put these between the marks of the page."""
    start, end = _marks(mark)
    text = page.read_text()
    before, after = text.partition(start)[0], text.partition(end)[2]
    page.write_text(f"{before}{start}\n" + "\n".join(lines) + f"\n{end}{after}")


def _marks(mark: str) -> tuple[str, str]:
    return f"<!-- {mark} -->", f"<!-- /{mark} -->"
