"""The pool of child processes on this machine.

Every child leads a process group, so that its JVM ends with it, and reads from a pipe that this
process holds open, so that it ends with this process.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast
from uuid import uuid4

from controlplane import logs
from controlplane.core.errors import LogGone
from controlplane.core.model import driver_ends, namespaces
from controlplane.core.model.drivers import Driver
from controlplane.core.model.namespaces import DEFAULT
from controlplane.core.model.scaling import PoolLimits, PoolShare, surplus
from controlplane.core.model.tasks import SIZES, Size
from controlplane.core.redaction import redacted
from controlplane.drivers import package_folders
from controlplane.drivers.backoff import Backoff
from controlplane.drivers.left_behind import ChildRecords
from controlplane.drivers.liveness import Liveness
from controlplane.drivers.log_tail import end_of, last_lines
from controlplane.drivers.user import User
from controlplane.ports.pool import LOG_BYTES
from dataplane.contract.kinds import Process
from dataplane.contract.secret_pipe import PIPE_VARIABLE, secret_pipe

# -P: a folder that one happens to be in is no place to import from
COMMAND = (sys.executable, "-P", "-m", "dataplane")
LOG_TAIL_BYTES = 8192
START_S = 300.0  # a child that never called may take so long to
AWAY_S = 20.0  # this process itself was paused, or busy, if it has not looked for so long
ID = re.compile(r"(driver|worker)-[0-9a-f]{12}(n[a-z2-7]{1,64})?")
NO_MEMORY = "ran out of memory"
NO_JVM = "JAVA_GATEWAY_EXITED"  # says PySpark, and leaves why to the JVM
WRITTEN_BY_JVM = re.compile(
    r"^(Exception in thread|Error|Invalid|Unrecognized|Conflicting|.* insufficient mem).*", re.M
)
# Waiting and running tasks that are worth one more worker, which costs memory and processor time
WORKER_TASKS = 200
WORKERS, DRIVERS = 4, 2  # on one machine, for all namespaces together
# A worker that has loaded Arrow and has no work for so long makes room for a fresh one
WORKER_REST_S = 60.0
log = logs.get("pool")


def shares_of(driver_idle_s: float) -> tuple[PoolShare, ...]:
    """The pools of one namespace. One session serves all sizes, and ends after `driver_idle_s`
    without work."""
    workers, drivers = (
        PoolLimits(1, 2, idle_s=300.0, tasks_each=WORKER_TASKS),
        PoolLimits(0, 1, driver_idle_s, tasks_each=1),
    )
    return (
        PoolShare("worker", "standard", SIZES, workers, most=WORKERS),
        PoolShare("driver", "standard", SIZES, drivers, most=DRIVERS),
    )


@dataclass(slots=True)
class ChildProcess:
    """A started process. `stopping`: since when it is to end; `killed`: why we killed it."""

    driver: Driver
    process: subprocess.Popen[bytes]
    log: Path
    began: float
    stopping: bool = False
    killed: str = ""

    @property
    def namespace(self) -> str:
        return namespaces.of_id(self.driver.id)


class LocalPool:
    """Starts `python -m dataplane worker | driver`. Safe to use from many threads."""

    name = "local"
    outlives = False

    def __init__(
        self,
        url: str,
        home: Path,
        mint_token: Callable[[str], str],
        *,
        command: tuple[str, ...] = COMMAND,
        environment: Mapping[str, str] = os.environ,
        monotonic: Callable[[], float] = time.monotonic,
        grace_s: float = 10.0,
        liveness: Liveness | None = None,
        silent_s: float = 90.0,
        user: User | None = None,
        own: Path | None = None,
        driver_idle_s: float = 300.0,
    ) -> None:
        """`mint_token` gives the token of the driver with an id. `grace_s`: between the request to
        end and the kill. A child whose last call is more than `silent_s` ago is killed; an idle one
        calls every 20 s. Children run as `user`, if one is given, and store their files in the
        folder `own` instead of the home. A driver without work is kept for `driver_idle_s`."""
        self.shares = shares_of(driver_idle_s)
        self._liveness, self._silent_s, self._looked = liveness, silent_s, float("inf")
        self._url, self._home, self._mint_token = url, home, mint_token
        self._command, self._monotonic, self._grace_s = command, monotonic, grace_s
        self._environment, self._full_environment = inherited(environment), dict(environment)
        self._user, self._own = user, own or home
        self._children: dict[str, ChildProcess] = {}
        self._backoff = defaultdict[tuple[str, str], Backoff](Backoff)  # by namespace and kind
        self._lock = threading.Lock()
        # A child may get its end signal when the thread that started it ends
        self._spawner = ThreadPoolExecutor(1, "spawner")
        self._closed = False
        self._records, self._has_swept = ChildRecords(home / "run"), False

    def scale(
        self,
        kind: str,
        count: int,
        size: Size = "standard",
        busy: Collection[str] = (),
        *,
        namespace: str = DEFAULT,
    ) -> None:
        if size != "standard":
            return
        with self._lock:
            self._end_left_behind()
            theirs = [c for c in self._children.values() if c.namespace == namespace]
            of_kind = [c for c in theirs if c.driver.kind == kind and _lives(c)]
            running = [c for c in of_kind if not c.stopping and not c.killed]
            idle = [c for c in running if c.driver.id not in busy]
            for child in surplus(idle, len(running), count):
                child.stopping = True
                child.process.terminate()
            if not self._closed and self._monotonic() >= self._backoff[namespace, kind].until:
                for _ in range(count - len(running)):
                    self._start(cast("Process", kind), namespace)

    def _end_left_behind(self) -> None:
        """Once, before the first child: the caller has adopted results that earlier children had
        finished."""
        if not self._has_swept:
            self._has_swept = True
            for pid in self._records.end_all():
                log.warning("a process of an earlier service was ended", pid=pid)

    def end(self, driver: str, reason: str) -> None:
        with self._lock:
            if (child := self._children.get(driver)) is not None:
                _kill(child, reason)

    def poll(self) -> tuple[Driver, ...]:
        with self._lock:
            self._kill_silent()
            return tuple(self._observe(child) for child in list(self._children.values()))

    def _kill_silent(self) -> None:
        """Includes idle and stopping drivers. Requests that arrived during our pause are still
        queued, so silence counts only after they are answered."""
        if self._liveness is None:
            return
        now = self._monotonic()
        if now - self._looked > AWAY_S:
            self._liveness.note_unknown_call()
        self._looked = now
        for child in self._children.values():
            if self._liveness.silence_s(
                child.driver.id, child.began, START_S
            ) > self._silent_s and _lives(child):
                _kill(child, driver_ends.SILENT)

    def log(self, driver: str, lines: int) -> str:
        try:
            if ID.fullmatch(driver):  # others name no file of ours
                return last_lines(end_of(self._log(driver), LOG_BYTES), lines)
        except OSError:
            """As if there were none."""
        raise LogGone(
            f"there is no log of {driver} in the home of this server; one that ran elsewhere left it there"
        )

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for child in self._children.values():
                child.stopping = True
                child.process.terminate()
            deadline = time.monotonic() + self._grace_s
            for child in self._children.values():
                _wait_for_end(child, deadline)
                self._bury(child)
            self._children.clear()
            self._spawner.shutdown()

    def _start(self, kind: Process, namespace: str) -> None:
        id = namespaces.id_in(namespace, f"{kind}-{uuid4().hex[:12]}")
        path = self._log(id)
        path.parent.mkdir(parents=True, exist_ok=True)
        secret_values = secrets_of(self._full_environment, namespace) | {
            "HEADGATE_TOKEN": self._mint_token(id)
        }
        environment = self._environment | self._addresses(namespace)
        start = partial(
            _spawn, [*self._command, kind], environment, secret_values, path, self._user
        )
        process = self._spawner.submit(start).result()
        now = time.time()
        driver = Driver(id, self.name, kind, at=now, seen=now)
        self._children[id] = ChildProcess(driver, process, path, self._monotonic())
        self._records.put(id, process.pid)

    def _log(self, id: str) -> Path:
        return self._home / "logs" / f"{id}.log"

    def _addresses(self, namespace: str) -> dict[str, str]:
        own = package_folders.own_of(self._own, namespace)
        addresses = {
            "HEADGATE_URL": self._url,
            "HEADGATE_HOME": str(own),
            "HEADGATE_INSTALLATION": str(self._home),
            "HEADGATE_PARENT_PIPE": "1",
            "HEADGATE_WORKER_REST_S": str(WORKER_REST_S),
        }
        if (folder := self._full_environment.get("HEADGATE_SECRETS")) and namespace != DEFAULT:
            addresses["HEADGATE_SECRETS"] = str(Path(folder) / "namespaces" / namespace)
        if self._user is None:
            return addresses
        return addresses | {
            "HOME": str(self._own),
            "USER": self._user.name,
            "LOGNAME": self._user.name,
        }

    def _observe(self, child: ChildProcess) -> Driver:
        driver = child.driver
        if _lives(child):
            waits_for = driver_ends.STARTING if self._starts_spark(driver) else ""
            return replace(driver, reason=waits_for)
        status = self._bury(child)
        del self._children[driver.id]
        if self._liveness is not None:
            self._liveness.forget(driver.id)
        now = self._monotonic()
        if not child.stopping:
            self._backoff[child.namespace, driver.kind].after(now - child.began, now)
        words = reason(status, child)
        return Driver(
            driver.id,
            driver.pool,
            driver.kind,
            at=driver.at,
            seen=time.time(),
            ended=True,
            reason=words,
            fault="memory" if words.startswith(NO_MEMORY) else "",
        )

    def _starts_spark(self, driver: Driver) -> bool:
        if self._liveness is None or driver.kind != "driver":
            return False
        return not self._liveness.has_spark(driver.id)

    def _bury(self, child: ChildProcess) -> int:
        """Kill the rest of the group, then reap its leader: until then no other group can have its
        number."""
        with suppress(ProcessLookupError):
            os.killpg(child.process.pid, signal.SIGKILL)
        status = child.process.wait()
        if child.process.stdin:
            child.process.stdin.close()
        self._records.drop(child.driver.id)
        return status


def _spawn(
    command: list[str],
    environment: dict[str, str],
    secret_values: dict[str, str],
    log: Path,
    user: User | None,
) -> subprocess.Popen[bytes]:
    with open(log, "ab", opener=_private) as out, secret_pipe(secret_values) as descriptor:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment | {PIPE_VARIABLE: str(descriptor)},
            pass_fds=(descriptor,),
            start_new_session=True,
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=() if user else None,
        )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _kill(child: ChildProcess, reason: str) -> None:
    """Its whole group, and at once: a process that is stopped or hangs heeds nothing else. `poll`
    reaps it."""
    child.killed = child.killed or reason
    with suppress(ProcessLookupError):
        os.killpg(child.process.pid, signal.SIGKILL)


def _lives(child: ChildProcess) -> bool:
    """Whether it runs; one that has ended stays unreaped."""
    if child.process.returncode is not None:
        return False
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return child.process.poll() is None
    return os.waitid(os.P_PID, child.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _wait_for_end(child: ChildProcess, deadline: float) -> None:
    while _lives(child) and time.monotonic() < deadline:
        time.sleep(0.01)


# --- words --------------------------------------------------------------------------------------


def reason(status: int, child: ChildProcess) -> str:
    """Why a child ended, for people."""
    tail = redacted(_tail(child.log))
    if child.killed:
        return child.killed
    if child.stopping:
        return driver_ends.AS_REQUESTED
    if "OutOfMemoryError" in tail or "MemoryError" in tail:
        return f"{NO_MEMORY} ({_ending(status)}); see {child.log.name}"
    if status in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return "killed by SIGKILL: by a person, or because the machine ran out of memory"
    last = tail.strip().rpartition("\n")[2]
    if NO_JVM in last and (match := WRITTEN_BY_JVM.search(tail)):
        last = f"Spark's JVM did not start: {match[0]}"
    return _ending(status) + (f": {last[:300]}" if status and last else "")


def _ending(status: int) -> str:
    return (
        f"killed by {signal.Signals(-status).name}" if status < 0 else f"exited with code {status}"
    )


def _tail(log: Path) -> str:
    try:
        return end_of(log, LOG_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ""


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """What children may see of our environment: nothing that opens the control plane or its
    database, and no secret."""
    return {
        k: v for k, v in environment.items() if k.startswith(_SHARED) or not k.startswith(_PRIVATE)
    }


def secrets_of(environment: Mapping[str, str], namespace: str = DEFAULT) -> dict[str, str]:
    """Secrets of a namespace's sources, which are resolved in the data plane, and only there. They
    are passed apart from the environment. Those of `team-a` are called
    HEADGATE_NAMESPACE__TEAM_A__SECRET_..., and come as HEADGATE_SECRET_..."""
    word = namespace.upper().replace("-", "_")
    prefix = "HEADGATE_SECRET_" if namespace == DEFAULT else f"HEADGATE_NAMESPACE__{word}__SECRET_"
    return {
        f"HEADGATE_SECRET_{k.removeprefix(prefix)}": v
        for k, v in environment.items()
        if k.startswith(prefix)
    }


_PRIVATE = ("HEADGATE_", "PG")
_SHARED = (
    "HEADGATE_SECRETS",  # a folder
    "HEADGATE_DRIVER_MEMORY",
    "HEADGATE_CLASSES",
    "HEADGATE_DLT",
    "HEADGATE_SPARK_FORMATS",
    "HEADGATE_SPARK_PACKAGES",
    "HEADGATE_JARS",
    "HEADGATE_JVM",
    "HEADGATE_READ_BACK",
    "HEADGATE_LAKE",  # Spark needs it at its start
    "HEADGATE_SPARK_CONF",
    "HEADGATE_WORKER_SLOTS",
    "HEADGATE_LISTING_TIMEOUT",
    "HEADGATE_SOURCES",  # checked wherever a place is opened
    "HEADGATE_FAILPOINTS",
)
