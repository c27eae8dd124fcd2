"""What processes cost: wall time and CPU time of a command with all of its descendants, and what a
service uses.

Does not belong here: which commands, and what their numbers mean. Reads /proc, so Linux only.
"""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SHOWN_LINES = 40


class Failed(Exception):
    """A command ended with another status than 0."""


@dataclass(frozen=True, slots=True)
class Cost:
    """`cpu_s` is user and system time of a process and its descendants."""

    wall_s: float
    cpu_s: float
    output: str = ""

    def json(self) -> dict[str, float]:
        return {"wall_s": round(self.wall_s, 3), "cpu_s": round(self.cpu_s, 3)}


def environment() -> dict[str, str]:
    """Ours without what a user's shell would not have: bytecode is cached, settings are the
    defaults."""
    return {
        k: v
        for k, v in os.environ.items()
        if k not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
        and not k.startswith("HEADGATE_")
    }


def timed(command: Sequence[str | Path], *, errors: Path) -> Cost:
    """Run to its end, one command at a time. What it says on standard error goes to a file."""
    before, began = _children_cpu_s(), time.monotonic()
    with errors.open("ab") as sink:
        done = subprocess.run(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=sink, env=environment()
        )
    wall_s = time.monotonic() - began
    if done.returncode:
        told = [*done.stdout.decode().splitlines(), *errors.read_text().splitlines()[-SHOWN_LINES:]]
        raise Failed(
            "\n".join([*told, f"{' '.join(map(str, command))} ended with {done.returncode}"])
        )
    return Cost(wall_s, _children_cpu_s() - before, done.stdout.decode())


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)  # of those that were waited for, and theirs
    return used.ru_utime + used.ru_stime


# --- a service that goes on -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    command: str
    cpu_s: float
    rss_bytes: int


def family(root: int) -> list[Process]:
    """A process and its descendants, itself first."""
    every = {p.pid: p for p in map(_read, _pids()) if p is not None}
    found = [every[root]]
    for process in found:
        found += [p for p in every.values() if p.parent == process.pid]
    return found


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def _read(pid: int) -> Process | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
        rss_bytes = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return Process(
        pid, int(fields[1]), command, (int(fields[11]) + int(fields[12])) / TICKS_PER_S, rss_bytes
    )


@dataclass(frozen=True, slots=True)
class Rest:
    """What one process uses while nothing is to be done."""

    name: str
    pss_mb: float  # pages that processes share count once
    cpu_share: float

    def json(self) -> dict[str, str | float]:
        return asdict(self)


def at_rest(root: int, seconds: float) -> list[Rest]:
    """Watch a family for a while, itself first. Processes that come or go in between are left
    out."""
    before, began = {p.pid: p for p in family(root)}, time.monotonic()
    time.sleep(seconds)
    elapsed_s = time.monotonic() - began
    return [_rest(before[p.pid], p, elapsed_s) for p in family(root) if p.pid in before]


def _rest(before: Process, after: Process, elapsed_s: float) -> Rest:
    share = (after.cpu_s - before.cpu_s) / elapsed_s
    return Rest(_name(after.command), round(_pss_bytes(after.pid) / 1e6, 1), round(share, 5))


def _pss_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    [kilobytes] = (line.split()[1] for line in lines if line.startswith("Pss:"))
    return int(kilobytes) * 1024


NAMES: Mapping[str, str] = {
    "controlplane.lake.publish_child": "publisher",
    "dataplane worker": "worker",
    "dataplane driver": "driver",
    "SparkSubmit": "Spark",
    "controlplane serve": "control plane",
}


def _name(command: str) -> str:
    return next((name for part, name in NAMES.items() if part in command), command[:60])


def memory_by_name(processes: Iterable[Process]) -> dict[str, float]:
    """Resident memory in MB of the processes in `NAMES`, added up where some share a name."""
    memory_mb = dict.fromkeys(NAMES.values(), 0.0)
    for process in processes:
        name = _name(process.command)
        if name in memory_mb:
            memory_mb[name] = round(memory_mb[name] + process.rss_bytes / 1e6, 1)
    return memory_mb


def cpu_by_thread(pid: int) -> dict[str, float]:
    """CPU seconds of a process's threads, by the names of threads."""
    seconds: dict[str, float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            head, _, rest = (task / "stat").read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        fields, name = rest.split(), head.partition("(")[2]
        used = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
        seconds[name] = seconds.get(name, 0.0) + used
    return seconds


def cpu_of(root: int) -> float:
    """CPU seconds that the living members of a family have used."""
    return sum(p.cpu_s for p in family(root))
