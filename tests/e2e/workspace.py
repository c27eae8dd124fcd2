"""A folder with a blueprint, data and a home, and the command as a user runs it there.

Every process that comes of it carries a mark in its environment, so that none is overlooked. Does
not belong here: what is expected.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar
from uuid import uuid4

from controlplane import demo
from controlplane.client import Headgate

T = TypeVar("T")
Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "controlplane")
HANGS_S = 600.0  # nothing here takes as long: what does, hangs
LOOK_AGAIN_S = 0.1
# For sessions that end soon: a fifth less of the processors' time
SHORT = "-XX:TieredStopAtLevel=1"


@dataclass
class Workspace:
    """`home` lies beside the blueprints, which are written with `write`.

    `elsewhere`: the folder of a lake that is not in the home. `environment`: what all commands are
    told besides. `lasts`: runs share a process, whose drivers stay warm, until a command needs the
    home for itself.
    """

    folder: Path
    mark: str = field(default_factory=lambda: uuid4().hex)
    elsewhere: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)
    lasts: bool = False
    _lasting: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def lake(self) -> Path:
        return self.elsewhere or self.home / "lake"

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def edit(self, name: str, *changes: tuple[str, str]) -> str:
        """Change a text that is there; returns what it was."""
        path = self.folder / name
        before = after = path.read_text()
        for old, new in changes:
            assert after.count(old) == 1, old
            after = after.replace(old, new)
        path.write_text(after)
        return before

    # the command

    def start(self, *arguments: object, **environment: str) -> subprocess.Popen[bytes]:
        """The command in a process group of its own, its output in pipes."""
        return self._start(arguments, environment, subprocess.PIPE)

    def _start(
        self, arguments: Iterable[object], environment: Mapping[str, str], messages: int | IO[bytes]
    ) -> subprocess.Popen[bytes]:
        words = [*map(str, arguments)]
        if words[0] in ("run", "serve"):
            self.end_lasting()
        return self._process([*COMMAND, *words], environment, subprocess.DEVNULL, messages)

    def _process(
        self,
        command: list[str],
        environment: Mapping[str, str],
        given: int,
        messages: int | IO[bytes],
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={**_environment(), **self.environment, "E2E_MARK": self.mark, **environment},
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=messages,
            start_new_session=True,
        )

    def call(self, *arguments: object, code: int = 0, **environment: str) -> str:
        """Standard output of a command that ends with `code`."""
        with ended(self.start(*arguments, **environment)) as process:
            out, err = process.communicate(timeout=HANGS_S)
        assert process.returncode == code, (
            f"{arguments} ended with {process.returncode}\n{out.decode()}{err.decode()}"
        )
        return out.decode()

    def ask(self, *arguments: object, code: int = 0, **environment: str) -> Any:
        """The JSON that a command answers on this home."""
        return json.loads(
            self.call(*arguments, "--home", self.home, "--output", "json", code=code, **environment)
        )

    def run(self, *files: str, code: int = 0, **environment: str) -> Run:
        names = files or ("flights.yaml",)
        if self.lasts and not environment:
            return Run(self._run_in_lasting(names, code))
        return Run(self.ask("run", *names, code=code, **environment))

    def dies(self, failpoint: str, *files: str) -> None:
        """A run whose control plane is killed at a failpoint."""
        with ended(
            self.start("run", *files, "--home", self.home, HEADGATE_FAILPOINTS=failpoint)
        ) as process:
            out, err = process.communicate(timeout=HANGS_S)
        assert process.returncode == -signal.SIGKILL, f"{failpoint}: {out.decode()}{err.decode()}"
        self.assert_alone()

    # one process for many runs

    def _run_in_lasting(self, files: Sequence[str], code: int) -> Json:
        """The same as of a process of its own: `spark_started` says whether a driver did
        anything."""
        before = self._claimed_by_drivers()
        told = self._told_by_lasting(["run", *files, "--home", str(self.home), "--output", "json"])
        assert told["code"] == code, (
            f"{files} ended with {told['code']}\n{told['out']}{told['err']}"
        )
        value: Json = json.loads(told["out"])
        value["spark_started"] = self._claimed_by_drivers() > before
        return value

    def _told_by_lasting(self, arguments: list[str]) -> Json:
        process = self._lasting or self._start_lasting()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(arguments).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"{arguments}: {(self.folder / 'lasting.log').read_text()}"
        told: Json = json.loads(line)
        return told

    def _start_lasting(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.e2e.lasting", str(self.home)]
        ours = {"PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        with (self.folder / "lasting.log").open("ab") as log:
            self._lasting = self._process(command, ours, subprocess.PIPE, log)
        return self._lasting

    def end_lasting(self) -> None:
        """In good order. The next run starts another one."""
        process, self._lasting = self._lasting, None
        if process is None:
            return
        with ended(process):
            process.communicate(timeout=HANGS_S)
        assert process.returncode == 0, (self.folder / "lasting.log").read_text()

    def _claimed_by_drivers(self) -> int:
        """Attempts of all drivers so far, of whatever kind."""
        if not (self.home / "metadata.db").exists():
            return 0
        claims = self.query("SELECT body FROM events WHERE kind = 'task.claimed'")
        return len([1 for (body,) in claims if json.loads(body)["driver"].startswith("driver-")])

    @contextmanager
    def serving(self, port: int = 0, **environment: str) -> Iterator[Service]:
        """A service on this home, killed at the end if it has not ended before. Its messages go to
        `serve.log`."""
        with (self.folder / "serve.log").open("ab") as log:
            process = self._start(("serve", "--home", self.home, "--port", port), environment, log)
        with ended(process):
            yield Service(self, process)

    # what is left behind

    def processes(self) -> dict[int, str]:
        """The command lines of all processes that carry the mark, by process id."""
        found = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if (
                    entry.name.isdigit()
                    and f"E2E_MARK={self.mark}".encode() in (entry / "environ").read_bytes()
                ):
                    found[int(entry.name)] = (
                        (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    )
        return {pid: line for pid, line in found.items() if line}  # a zombie has no command line

    def assert_alone(self) -> None:
        """No process of ours is left, at the latest after a moment."""
        self.end_lasting()
        until(lambda: not self.processes(), lambda: f"still there: {self.processes()}")

    def end_all(self) -> None:
        """For the end of a test, whatever became of it."""
        while left := self.processes():
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            threading.Event().wait(LOOK_AGAIN_S)
        if self._lasting is not None:
            with ended(self._lasting):
                self._lasting = None

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the metadata database, for what no answer shows."""
        with sqlite3.connect(f"file:{self.home / 'metadata.db'}?mode=ro", uri=True) as connection:
            rows = connection.execute(sql).fetchall()
        connection.close()
        return rows

    def counted(self) -> Mapping[str, int]:
        """Sums of all events of this home by kind."""
        return dict(self.query("SELECT kind, sum(n) FROM events GROUP BY kind"))

    def listed(self) -> int:
        """Requests to list that were served, also by failures, in the whole life of this home."""
        return int(self.query("SELECT coalesce(sum(served), 0) FROM listings")[0][0])

    def untidy(self) -> list[str]:
        """Attempts that are open, and folders of attempts without a fragment that is known."""
        attempts = [id for (id,) in self.query("SELECT id FROM attempts")]
        known = {attempt for (attempt,) in self.query("SELECT attempt FROM fragments")}
        left = [path for path in self.lake.glob("*/*/*/_frags/??/*") if path.name not in known]
        return attempts + [str(file) for path in left for file in (path, *path.rglob("*"))]

    def assert_tidy(self) -> None:
        assert self.untidy() == []


@dataclass(frozen=True)
class Run:
    """The JSON of `run`."""

    value: Mapping[str, Any]

    @property
    def executed(self) -> int:
        return int(self.value["tasks"]["executed"])

    @property
    def tasks(self) -> dict[str, int]:
        """All counts but `other`."""
        return {name: n for name, n in self.value["tasks"].items() if n and name != "other"}

    @property
    def datasets(self) -> dict[str, Json]:
        """By name without the dataflow's."""
        return {d["name"].partition(".")[2]: d for d in self.value["datasets"]}

    @property
    def targets(self) -> dict[str, Json]:
        return {t["name"].partition(".")[2]: t for t in self.value["targets"]}

    @property
    def roots(self) -> dict[str, str]:
        return {name: d["root"] for name, d in self.datasets.items()}

    def assert_up_to_date(self) -> None:
        assert self.value["state"] == "up_to_date", self.value
        assert self.value["errors"] == []

    def assert_idle(self) -> None:
        """Nothing ran: not a task, not Spark."""
        self.assert_up_to_date()
        assert self.executed == 0, self.value["tasks"]
        assert self.value["spark_started"] is False


class Service:
    """A `serve` that is ready."""

    def __init__(self, workspace: Workspace, process: subprocess.Popen[bytes]) -> None:
        self.workspace, self.process = workspace, process
        self.url = until(self._address, lambda: f"not serving: {process.poll()}")
        self.token = (workspace.home / "token").read_text().strip()

    def _address(self) -> str:
        assert self.process.poll() is None, self.process.communicate()
        try:
            url = str(json.loads((self.workspace.home / "server.json").read_bytes())["url"])
        except (OSError, ValueError):
            return ""
        if not url:
            return ""
        with Headgate(url, "none") as client:
            return url if client.is_ready() else ""

    def client(self) -> Headgate:
        return Headgate(self.url, self.token)

    def stop(self, number: int) -> int:
        """Send a signal and wait for the end; the exit code."""
        self.process.send_signal(number)
        self.process.communicate(timeout=HANGS_S)
        return self.process.returncode


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The process has ended when the block is left, and its pipes are closed."""
    try:
        with process:
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                _drain(process)
    finally:
        process.wait()


def _drain(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None and not pipe.closed:
            pipe.close()


def until(predicate: Callable[[], T], what: Callable[[], str]) -> T:
    """The first true answer; `what` tells what went wrong if there never is one."""
    looks = int(HANGS_S / LOOK_AGAIN_S)
    for _ in range(looks):
        if found := predicate():
            return found
        select.select([], [], [], LOOK_AGAIN_S)
    raise AssertionError(what())


def _environment() -> dict[str, str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith("HEADGATE_")}
    return {**own, "HEADGATE_JVM": os.environ.get("HEADGATE_JVM", SHORT)}


# --- the example's data ---------------------------------------------------------------------------


def example(folder: Path, extra: str = "", *, lasts: bool = False) -> Workspace:
    """The flights example without its data; `extra` is added to the blueprint's components."""
    shutil.copytree(
        demo.blueprint_folder(),
        folder,
        ignore=shutil.ignore_patterns("data", "out"),
        dirs_exist_ok=True,
    )
    workspace = Workspace(folder, lasts=lasts)
    path = folder / "flights.yaml"
    path.write_text(path.read_text() + extra)
    return workspace


def add_days(workspace: Workspace, monthly: Path, *days: int) -> None:
    """Files of single days of January, with all of January's weather and the dimensions."""
    data = workspace.folder / "data"
    (data / "flights").mkdir(parents=True, exist_ok=True)
    (data / "weather").mkdir(exist_ok=True)
    for name in ("airlines.csv", "airports.csv", "planes.csv", "weather/2013-01.csv"):
        shutil.copy(monthly / name, data / name)
    for day in days:
        (data / "flights" / day_name(day)).write_text(day_text(monthly, day))


def day_name(day: int) -> str:
    return f"2013-01-{day:02}.csv"


def day_text(monthly: Path, day: int) -> str:
    header, *lines = (monthly / "flights" / "2013-01.csv").read_text().splitlines(keepends=True)
    return header + "".join(line for line in lines if line.split(",")[2] == str(day))
