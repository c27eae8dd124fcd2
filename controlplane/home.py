"""The home folder: its layout, the lock that one process holds on it for life, the address and
token left for clients."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from controlplane.core.errors import BadHome, HomeLocked

DATABASE = ("metadata.db", "metadata.db-wal", "metadata.db-shm")
LOCK_PAUSES_S = (0.0, 0.02, 0.1)  # `is_held` of another process holds the lock for an instant


class Holder(TypedDict):
    """Who holds a home: `url` is empty until the API listens. `role`: a `run` ends by itself and
    works on nothing but its own dataflows; a `serve` works on all."""

    url: str
    pid: int
    role: str


@dataclass(frozen=True, slots=True)
class Home:
    """Paths below one folder. Nothing is created before `prepare`."""

    path: Path

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def run(self) -> Path:
        return self.path / "run"

    @property
    def token_file(self) -> Path:
        return self.path / "token"

    @property
    def server_file(self) -> Path:
        return self.path / "server.json"

    def is_there(self) -> bool:
        """Whether something was stored in it; creates nothing."""
        return (self.path / DATABASE[0]).is_file()

    def prepare(self) -> None:
        """Create the folders, closed to other users. Raises BadHome."""
        for folder in (self.path, self.logs, self.run, self.path / "lake"):
            with _clear_errors(folder, "a folder"):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        database = self.path / DATABASE[0]
        with _clear_errors(database, "a file"):
            if database.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))

    def tighten(self) -> tuple[Path, ...]:
        """Close what earlier versions, copies or backups left open to other users; those that were.
        The lake is the operator's to open, and so is the way to it: others may look into the home,
        but change nothing."""
        files = [
            self.token_file,
            self.server_file,
            self.path / "s3-secret",
            *(self.path / name for name in DATABASE),
            *self.run.glob("*"),
        ]
        modes = {
            **dict.fromkeys(files, 0o600),
            **dict.fromkeys((self.logs, self.run), 0o700),
            self.path: 0o755,
        }
        return tuple(path for path, mode in modes.items() if _is_tightened(path, mode))

    def lock(self, role: str = "serve") -> Lock:
        """Take this home, or raise HomeLocked. The kernel frees it when the process ends, however
        it does."""
        self.prepare()
        with _clear_errors(self.path / "lock", "a file"):
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not any(_try_lock(handle, pause_s) for pause_s in LOCK_PAUSES_S):
            os.close(handle)
            raise HomeLocked(_refusal(self.path, self.holder()))
        lock = Lock(handle, self)
        self.announce("", role)
        return lock

    def wait_until_free(self) -> None:
        """Until no other process holds this home; another one may be faster to take it then."""
        try:
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_SH)
        finally:
            os.close(handle)

    def is_held(self) -> bool:
        """Whether another process holds this home right now; creates nothing."""
        try:
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def holder(self) -> Holder | None:
        """Who says that it holds this home; true only while `is_held`."""
        try:
            record = json.loads(self.server_file.read_bytes())
            return Holder(
                url=str(record["url"]),
                pid=int(record["pid"]),
                role=str(record.get("role", "serve")),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def announce(self, url: str, role: str = "serve") -> None:
        """Leave address, process id and role for clients."""
        _replace(self.server_file, json.dumps(Holder(url=url, pid=os.getpid(), role=role)))

    def instance(self) -> str:
        """A name for the process that holds this home. The first call makes it."""
        path = self.path / "instance"
        if not path.exists():
            _replace(path, f"{secrets.token_hex(4)}\n")
        return _text_of(path, "a file with a name in it")

    def s3_secret(self) -> str:
        """From which the secrets of S3 keys are made; made by the first one that asks, and never
        again: another would end all keys."""
        path = self.path / "s3-secret"
        if not path.exists():
            _put_first(path, f"{secrets.token_hex(32)}\n")
        return _text_of(path, "a file with a secret in it")

    def token(self) -> str | None:
        try:
            return self.token_file.read_text("ascii").strip() or None
        except (OSError, UnicodeDecodeError):
            return None

    def keep_token(self, text: str) -> None:
        _replace(self.token_file, text + "\n")


class Lock:
    """An exclusive hold of a home. `release` is for orderly ends; the end of the process does as
    well."""

    def __init__(self, handle: int, home: Home) -> None:
        self._handle, self._home = handle, home

    def release(self) -> None:
        self._home.server_file.unlink(missing_ok=True)
        os.close(self._handle)


def _try_lock(handle: int, pause_s: float) -> bool:
    time.sleep(pause_s)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _replace(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all. Raises BadHome."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with _clear_errors(path, "a file"):
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        draft.replace(path)


def _put_first(path: Path, text: str) -> None:
    """As `_replace`, but an existing file stays. Raises BadHome."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.first")
    _replace(draft, text)
    with _clear_errors(path, "a file"), suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink(missing_ok=True)


def _text_of(path: Path, kind: str) -> str:
    with _clear_errors(path, kind):
        return path.read_text("ascii").strip()


@contextmanager
def _clear_errors(path: Path, kind: str) -> Iterator[None]:
    """Faults of a file or folder of the home as BadHome: its path, the fault, and what to do."""
    try:
        yield
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as e:
        raise BadHome(
            f"{path} has to be {kind}: move away what lies there, or name another --home"
        ) from e
    except UnicodeDecodeError as e:
        raise BadHome(
            f"{path} is not {kind} that Headgate wrote: remove it, and it is made anew"
        ) from e
    except PermissionError as e:
        raise BadHome(
            f"{path} cannot be written by this user: give it the right, or name another --home"
        ) from e
    except OSError as e:
        raise BadHome(
            f"{path}: {e.strerror or e}: make room or mend the disk, or name another --home"
        ) from e


def _is_tightened(path: Path, most: int) -> bool:
    """Whether a file or folder of ours allowed more than this, and does no more. Others' are
    theirs: the group of a mounted volume may be the only way in."""
    try:
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        if (
            stat.S_ISLNK(status.st_mode)
            or status.st_uid != os.geteuid()
            or not mode & 0o077 & ~most
        ):
            return False
        path.chmod(mode & most)
    except OSError:
        return False
    return True


def _refusal(path: Path, holder: Holder | None) -> str:
    who = f"process {holder['pid']}" if holder else "another process"
    where = f" (serving at {holder['url']})" if holder and holder["url"] else ""
    return f"{path} is held by {who}{where}: stop it first, or give another folder with --home"
