"""Places that no dataflow reads or writes: the installation's own, those of the system, and all
that the operator's allow list (`HEADGATE_SOURCES`) does not name.

A path is judged by where it leads, through links and `..`, and as it is written: `/proc/self/root`
leads to `/`. The target of a mount or a hard link is not seen.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from dataplane.contract.archives import split_member
from dataplane.contract.limits import SYSTEM_PLACES
from dataplane.contract.schemas import Json
from dataplane.storage.source_stores import has_host, path_of, root_of
from dataplane.task_failures import TaskFailure

SOURCES = "HEADGATE_SOURCES"
_OWN = ("HEADGATE_HOME", "HEADGATE_INSTALLATION", "HEADGATE_SECRETS", "HEADGATE_TOKEN_FILE")
# Container and account, as obstore reads them; a port and a password are not used
_AZURE = re.compile(r"([^:@]+)(?::[^@]*)?@([^.:@]+)\.(?:dfs|blob)\.core\.windows\.net(?::\d*)?")
_ACCOUNTS = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_ACCOUNT_NAME")
_ELSEWHERE = "put the data in a folder of their own and name it in path:"


@dataclass(frozen=True, slots=True)
class Places:
    """Refused places, each with its owner; `allowed` is None where the operator names no
    sources."""

    refused: tuple[tuple[str, str], ...]
    allowed: tuple[str, ...] | None = None

    @staticmethod
    def of(environ: Mapping[str, str], lake: str = "") -> Places:
        """As the environment says. `lake`: the URI or folder of the lake that a claim is about."""
        own = [environ[name] for name in _OWN if environ.get(name)]
        lakes = [uri for uri in (environ.get("HEADGATE_LAKE"), lake) if uri]
        refused = [(place, "a place of the system") for place in SYSTEM_PLACES]
        refused += [(place, "Headgate's own") for path in own for place in _ways_to(path)]
        refused += [(place, "Headgate's lake") for uri in lakes for place in _ways_to(uri)]
        sources = environ.get(SOURCES)
        entries = [entry.strip() for entry in sources.split(",")] if sources else []
        allowed = tuple(_real(entry) for entry in entries if entry)
        return Places(tuple(dict.fromkeys(refused)), allowed if sources else None)

    def check_source(self, place: str) -> None:
        """TaskFailure if nothing may be read there."""
        real = _real(place)
        self._check(place, real)
        self._check_allowed(place, real)

    def check_target(self, place: str) -> None:
        """TaskFailure if nothing may be written there. The allow list names sources only."""
        self._check(place, _real(place))

    def check_object(self, root: str, path: str) -> None:
        """As `check_source`, of an object in a store by its bucket and name."""
        place = _remote(root, path)
        self._check(place, place)
        self._check_allowed(place, place)

    def names_address(self, address: str) -> bool:
        """Whether the operator's allow list names the address of a server, or one above it."""
        if not has_host(address):  # a name without `https://` would be that of a local file
            return False
        real = _real(address)
        return any(_is_below(real, allowed) for allowed in self.allowed or ())

    def of_files(self, paths: Iterable[str]) -> Iterator[str]:
        """The same paths of local files. TaskFailure once one leads where nothing may be read."""
        folder, real = None, ""
        for path in paths:
            own, _, name = path.rpartition("/")
            if own != folder:
                folder, real = own, os.path.realpath(own or "/").rstrip("/")
            leads_to = os.path.realpath(path) if os.path.islink(path) else f"{real}/{name}"
            self._check(path, leads_to)
            self._check_allowed(path, leads_to)
            yield path

    def check_objects(self, objects: Iterable[Mapping[str, Json]]) -> None:
        """TaskFailure if one of the source objects of a task may not be read."""
        local = []
        for source in objects:
            uri = source["uri"]
            if not uri.startswith("/"):
                uri, _ = split_member(uri)
            if has_host(uri):
                self.check_object(root_of(uri), path_of(uri))
            elif uri.startswith(("/", "file:")):
                local.append(_path(uri))
        for _ in self.of_files(local):
            pass

    def _check(self, written: str, real: str) -> None:
        for form in (real, written if has_host(written) else os.path.normpath(_path(written))):
            for place, what in self.refused:
                if _is_below(form, place):
                    message = f"{_shown(written)} leads to {place}, which is {what}"
                    raise TaskFailure("place-refused", f"{message}: {_ELSEWHERE}")

    def _check_allowed(self, written: str, real: str) -> None:
        if self.allowed is not None and not any(_is_below(real, place) for place in self.allowed):
            message = f"{_shown(written)} is in no folder that {SOURCES} names"
            raise TaskFailure("place-refused", f"{message}: ask the operator to add it there")


def _ways_to(place: str) -> tuple[str, ...]:
    """A place as it is written, and where it leads."""
    if "://" in place and not place.startswith("file:"):
        return (_real(place),)
    return os.path.abspath(_path(place)), _real(place)


def _real(place: str) -> str:
    place = re.sub("^s3[an]:", "s3:", place)  # as Hadoop calls it
    if has_host(place):
        root = root_of(place)
        return _remote(root, place[len(root) :])
    return place if "://" in _path(place) else os.path.realpath(_path(place))


def _remote(root: str, path: str) -> str:
    """Scheme and bucket, all before the first slash, ignore case."""
    scheme, _, bucket = root.lower().partition("://")
    if scheme in ("abfs", "abfss"):
        scheme, bucket = "abfss", _azure(bucket)
    return f"{scheme}://{bucket}/{path.strip('/')}".rstrip("/")


def _azure(bucket: str) -> str:
    """All names of a container are one: by either host of its account, or without an account, which
    the environment then names."""
    if "@" not in bucket:
        account = next(filter(None, map(os.environ.get, _ACCOUNTS)), "")
        bucket = f"{bucket}@{account.lower()}.dfs.core.windows.net" if account else bucket
    names = _AZURE.fullmatch(bucket)
    return f"{names[1]}@{names[2]}.dfs.core.windows.net" if names else bucket


def _path(place: str) -> str:
    """The path of a `file:` URI, or of a path; a URI of another scheme stays as it is."""
    if not place.startswith("file:"):
        return place
    return "/" + unquote(place.removeprefix("file:")).lstrip("/")


def _is_below(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")


def _shown(path: str) -> str:
    return path.encode(errors="backslashreplace").decode()
