"""Checks of texts that have a form of their own: names, paths, schemas, partition templates."""

from __future__ import annotations

import posixpath
import re
from typing import Final

from controlplane.core import partitioning
from controlplane.core.blueprint.model import QUARANTINE
from controlplane.core.blueprint.problems import did_you_mean, shown
from controlplane.core.blueprint.value_kinds import Check, Fault
from dataplane.contract.globs import GLOB_CHARACTERS, braces_fault
from dataplane.contract.hosts import BUCKET, names_link_local
from dataplane.contract.hosts import REFUSED as LINK_LOCAL
from dataplane.contract.limits import SYSTEM_PLACES

NAME: Final = "[a-z][a-z0-9_]*"
LONGEST_NAME: Final = 100
LONGEST_PATH: Final = 4096
SELF: Final = "self"  # the dataset that is being declared
RESERVED: Final = frozenset({SELF})
PARAMETER: Final = "[A-Za-z_][A-Za-z0-9_]*"
TIMEZONE: Final = "[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*|[+-][0-9]{2}:[0-9]{2}"
LATER_SCHEMES: Final = ("s3", "s3a", "gs", "abfs", "abfss", "hdfs")
SERVERS: Final = (
    "http",
    "https",
    "sftp",
)  # from which files are read, and to which none are written
STORES: Final = ("s3", "gs", "abfs", "abfss")  # schemes of object stores that files are read from
CONTAINERS: Final = ("abfs", "abfss")


def name(text: str) -> Fault | None:
    """A dataflow's or component's name."""
    if not re.fullmatch(NAME, text):
        return Fault("invalid-name", f"{shown(text)} is no name", _name_hint(text))
    if "__" in text:
        return Fault(
            "invalid-name", f"{shown(text)} holds '__', which is reserved", "use one underscore"
        )
    if len(text) > LONGEST_NAME:
        return Fault(
            "invalid-name",
            f"a name of {len(text)} characters",
            f"at most {LONGEST_NAME} are possible",
        )
    return (
        Fault("invalid-name", f"{text!r} is reserved", "choose another name")
        if text in RESERVED
        else None
    )


def _name_hint(text: str) -> str:
    """The rule, and the text as it would follow it."""
    rule = "a to z, 0 to 9 and _, beginning with a letter"
    nearest = re.sub(r"[^a-z0-9]+", "_", text[:LONGEST_NAME].lower()).strip("_")
    return f"{rule}, such as {nearest}" if re.fullmatch(NAME, nearest) else rule


def dataset(text: str) -> Fault | None:
    """A name of a component, or `dataflow.component`."""
    parts = text.removesuffix(QUARANTINE).split(".")
    if len(parts) > 2:
        return Fault("invalid-name", f"{shown(text)} is no dataset", "write name or dataflow.name")
    return next(filter(None, map(name, parts)), None)


def input_dataset(text: str) -> Fault | None:
    """A dataset, or the one that is being declared."""
    return None if text == SELF else dataset(text)


def matching(pattern: str, expected: str) -> Check:
    compiled = re.compile(pattern)

    def check(text: str) -> Fault | None:
        match = compiled.fullmatch(text)
        return None if match else Fault("invalid-value", f"{shown(text)} is not {expected}")

    return check


def no_link_local(text: str) -> Fault | None:
    """An address of a service that is not link-local; what its name leads to is for workers to
    see."""
    if not names_link_local(text):
        return None
    return Fault("place-refused", f"{shown(text)} {LINK_LOCAL}", "name the host of a service")


def path(text: str) -> Fault | None:
    """A path or URI of files, with or without a glob."""
    if not text.strip() or len(text) > LONGEST_PATH or any(c < " " for c in text):
        return Fault("invalid-path", f"{shown(text)} is no path")
    scheme = text.partition("://")[0] if "://" in text else "file"
    if scheme in LATER_SCHEMES:
        return Fault("not-supported", f"{scheme}:// comes with a later release", "use local files")
    if scheme != "file":
        return Fault(
            "invalid-path", f"there is no scheme {shown(scheme)}", did_you_mean(scheme, ("file",))
        )
    return None


def no_system_place(text: str) -> Fault | None:
    """A path that is not one of the system's, as it is written; where links lead is for workers to
    see."""
    path = posixpath.normpath("/" + text.removeprefix("file:").lstrip("/"))
    for place in SYSTEM_PLACES if text.startswith(("/", "file:")) else ():
        if path == place or path.startswith(f"{place}/"):
            message = f"{shown(text)} is below {place}, a place of the system"
            return Fault("place-refused", message, "name a folder of data")
    return None


def _served_path(text: str) -> Fault | None:
    """A URL of files of a web server, or of an SFTP server."""
    scheme, _, rest = text.partition("://")
    host, _, below = rest.partition("/")
    if not re.fullmatch(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?", host):
        hint = f"for example {scheme}://files.example/folder/file.csv, without a user"
        return Fault("invalid-path", f"{shown(host)} names no host", hint)
    if re.search(r"(^|/)(\.|%2e){1,2}(/|$)", below.partition("?")[0], re.IGNORECASE):
        return Fault("invalid-path", f"{shown(text)} holds . or ..", "write where the file is")
    if scheme != "sftp" and (not below or any(c in below for c in "*[\\# ")):
        hint = "write its address, or several ones with braces: https://host/{a,b}.csv"
        return Fault("invalid-path", f"{shown(text)} is no address of a file", hint)
    return no_link_local(text) or path(f"/{below}")


def source_path(text: str) -> Fault | None:
    """As `path`, also in an object store or of a server."""
    scheme, _, rest = text.partition("://")
    if rest and scheme in SERVERS:
        return _served_path(text)
    if not rest or scheme not in STORES:
        return path(text)
    bucket, _, below = rest.partition("/")
    # A container of Azure stands before its account: container@account.dfs.core.windows.net
    bucket_name = bucket.replace("@", "") if scheme in CONTAINERS else bucket
    if not BUCKET.fullmatch(bucket_name):
        return Fault(
            "invalid-path",
            f"{shown(bucket)} names no bucket",
            f"for example {scheme}://bucket/folder/*.csv",
        )
    return path(f"/{below}")


def glob(text: str) -> Fault | None:
    """A path whose braces, if it has any, stand for a number of paths that can be looked for."""
    fault = braces_fault(text)
    return (
        Fault("invalid-path", fault, "use * in place of some braces, or several read components")
        if fault
        else None
    )


def no_server(text: str) -> Fault | None:
    """A place that files can be written to."""
    if text.partition("://")[0] not in SERVERS:
        return None
    return Fault(
        "not-supported", f"nothing is written to {shown(text)}", "name a folder or a bucket"
    )


def no_glob(text: str) -> Fault | None:
    if any(c in text for c in GLOB_CHARACTERS):
        return Fault(
            "invalid-path", "a path to write to holds one of * ? [ { \\", "name one folder"
        )
    return None


def module_path(text: str) -> Fault | None:
    """A Python file beside the blueprint or in a folder below it."""
    parts = text.split("/")
    if (
        not text.endswith(".py")
        or "\\" in text
        or ":" in text
        or any(p in ("", ".", "..") for p in parts)
    ):
        hint = "a relative path below the blueprint's folder, such as transforms/scores.py"
        return Fault("invalid-path", f"{shown(text)} names no Python file here", hint)
    return None


def partition(text: str) -> Fault | None:
    fault = partitioning.template_fault(text)
    return Fault("invalid-partition", *fault) if fault else None
