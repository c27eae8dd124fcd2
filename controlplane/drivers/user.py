"""Another user of this machine, as whom children run (HEADGATE_DRIVER_USER): its identity, and the
paths that are opened to it.

It may read and write the lake and a folder of its own in the home, and passes through the home to
both.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit


class BadUser(ValueError):
    """No children can run as this user."""


@dataclass(frozen=True, slots=True)
class User:
    name: str
    uid: int
    gid: int


def read(text: str) -> User:
    """Parse `name` or `uid[:gid]`, where a group may be named too. Raises BadUser with the
    reason."""
    name, _, group = text.partition(":")
    try:
        entry = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except (KeyError, OverflowError):
        raise BadUser(
            f"{name!r} is no user that this machine knows, which Spark's JVM needs"
        ) from None
    try:
        gid = (
            int(group)
            if group.isdecimal()
            else grp.getgrnam(group).gr_gid
            if group
            else entry.pw_gid
        )
    except KeyError:
        raise BadUser(f"{group!r} is no group of this machine") from None
    if entry.pw_uid == 0 or gid == 0:
        raise BadUser(f"{text!r} is root, or of its group: name a user that may do less")
    if os.geteuid() not in (0, entry.pw_uid):
        raise BadUser(
            "only root can start drivers as another user: start headgate as root, or unset it"
        )
    if os.geteuid() == entry.pw_uid:
        raise BadUser(
            f"headgate itself runs as {entry.pw_name}, so its token would be open to drivers: start it as root"
        )
    return User(entry.pw_name, entry.pw_uid, gid)


def open_to(user: User, home: Path, lake: str) -> Path:
    """Give the user a folder of its own, which is returned, and the lake if that is a folder. Files
    that root adds to the lake later are the group's as well."""
    own = home / "driver"
    own.mkdir(mode=0o700, exist_ok=True)
    os.chown(own, user.uid, user.gid)
    _add(home, 0o011)
    if (folder := _folder(lake)) is not None:
        os.umask(os.umask(0o077) & ~0o070)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _give(folder, user)
    return own


def _folder(lake: str) -> Path | None:
    if lake.startswith("file:"):
        return Path(unquote(urlsplit(lake).path))
    return None if "://" in lake else Path(lake)


def _give(folder: Path, user: User) -> None:
    """All that is there, once: the top comes last, and says that it is done."""
    if folder.stat().st_uid == user.uid and folder.stat().st_gid == user.gid:
        return
    for top, folders, files in os.walk(folder):
        for name in files:
            os.chown(Path(top) / name, user.uid, user.gid, follow_symlinks=False)
        for name in folders:
            _give_one(Path(top) / name, user)
    _give_one(folder, user)


def _give_one(folder: Path, user: User) -> None:
    os.chown(folder, user.uid, user.gid, follow_symlinks=False)
    if not folder.is_symlink():
        _add(folder, 0o2070)


def _add(path: Path, bits: int) -> None:
    path.chmod(stat.S_IMODE(path.stat().st_mode) | bits)
