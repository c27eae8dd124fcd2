"""Folders of packages that drivers on this machine installed for transforms, and that are no longer
needed.

Drivers make them (`dataplane.transform.packages`). Beside a folder stand `NAME.sets`, a line for
each set of requirements that it was used for, and `NAME.lock`, a lock that its users share.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.core.model.namespaces import DEFAULT

GRACE_S = 3600.0


def own_of(home: Path, namespace: str) -> Path:
    """The folder for files of a namespace's drivers."""
    return home if namespace == DEFAULT else home / "namespaces" / namespace


def forget(home: Path, needed: Collection[str], now: float) -> int:
    """Delete folders that were used for none of these sets, and for nothing for an hour; how many.
    One that is in use stays. Killed in between, the next call goes on."""
    top = home / "packages"
    for broken in (*top.glob("*.gone"), *top.glob("*.new")):
        with _alone(broken) as is_alone:
            if is_alone:
                shutil.rmtree(broken, ignore_errors=True)
    return sum(_is_deleted(path, frozenset(needed), now) for path in sorted(top.glob("*.sets")))


def _is_deleted(sets: Path, needed: frozenset[str], now: float) -> bool:
    with _alone(sets) as is_alone:
        if not is_alone or not sets.exists() or not _is_over(sets, needed, now):
            return False
        folder, condemned = sets.with_suffix(""), sets.with_suffix(".gone")
        if folder.is_dir():
            folder.rename(condemned)  # it vanishes at once, as it came
        sets.unlink()
        shutil.rmtree(condemned, ignore_errors=True)
        return True


def _is_over(sets: Path, needed: frozenset[str], now: float) -> bool:
    used_for = sets.read_text(encoding="utf-8").splitlines()
    return needed.isdisjoint(used_for) and sets.stat().st_mtime + GRACE_S < now


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """False where a process uses the folder, or installs it."""
    lock = os.open(path.with_suffix(".lock"), os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(lock)
