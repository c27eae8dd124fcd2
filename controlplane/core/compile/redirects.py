"""Write components of a branch that write to another place than main's. Pure.

A redirect names the place alone: a path, a table or a topic. Server, credentials and format are
those of the component. A redirect must not write to a place that another component may read or
write. Unless two places are certain to differ, they count as the same: names of tables and topics
are compared without their servers, and a folder within another component's folder belongs to that
component.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Literal, TypeAlias

from controlplane.core.blueprint import Write
from controlplane.core.blueprint.kafka import TO_TOPIC
from controlplane.core.blueprint.language import TO_PATH
from controlplane.core.blueprint.value_kinds import Kind, Text
from controlplane.core.compile import connector_identity
from controlplane.core.compile.nodes import Desired, Node, Sink, Source
from controlplane.core.errors import BadRedirect
from controlplane.core.model.branches import MAIN, Branch
from dataplane.contract.encoding import digest
from dataplane.contract.globs import GLOB_CHARACTERS

PlaceKind: TypeAlias = Literal["path", "table", "topic"]


@dataclass(frozen=True, slots=True)
class Place:
    """What a connector reads or writes, without the server. `name` is in the form in which places
    are compared."""

    kind: PlaceKind
    name: str

    def meets(self, other: Place) -> bool:
        """Whether they may be one place, or one lies in the other."""
        if self.kind != other.kind:
            return False
        if self.kind == "path":
            return _holds(self.name, other.name) or _holds(other.name, self.name)
        # In any schema
        if self.kind == "table" and not ("." in self.name and "." in other.name):
            return self.name.rpartition(".")[2] == other.name.rpartition(".")[2]
        return self.name == other.name


def resolved(sink: Sink, name: str) -> str:
    """The place that a redirect of this component names: a name without a folder or schema takes
    the place of the last part of the component's own. Raises BadRedirect."""
    kind, own = _kind(sink.write), _own_name(sink)
    if kind == "path" and "/" not in name:
        place = f"{own.rstrip('/').rpartition('/')[0]}/{name}"
    elif kind == "table" and "." in own and "." not in name:
        place = f"{own.rpartition('.')[0]}.{name}"
    else:
        place = name
    if fault := _fault(sink, place):
        raise BadRedirect(sink.dataset, fault)
    return place


def applied(desired: Desired, branch: Branch | None) -> Desired:
    """With the write components of this branch brought to the places that its redirects name."""
    if branch is None or branch.name == MAIN or not branch.redirects:
        return desired
    moved = {
        dataset: _moved(node, place, branch)
        for dataset, place in branch.redirects.items()
        if (node := desired.nodes.get(dataset)) and node.is_copy and not _fault(node, place)
    }
    return replace(desired, nodes={**desired.nodes, **moved}) if moved else desired


def occupied(
    desired: Desired, main: Desired, branch: Branch | None, others: Iterable[Branch]
) -> dict[str, str]:
    """Redirected write components of a branch whose place is not theirs alone, with the reason why
    they are off. `others`: all branches. If two branches have one place, it belongs to the older
    one."""
    moved = [node for node in desired.nodes.values() if node.is_copy and node.branch]
    if not moved or branch is None:
        return {}
    places = [*_places(main), *_places(desired)]
    older = [other for other in others if (other.at, other.name) < (branch.at, branch.name)]
    reasons: dict[str, str] = {}
    for node in moved:
        reason = _off_reason(node, places, older)
        if reason:
            reasons[node.dataset] = reason
    return reasons


def _off_reason(node: Sink, places: Iterable[tuple[str, Place]], older: Iterable[Branch]) -> str:
    place = _place(node)
    for name, other in places:
        if name != f"{node.dataset}@{node.branch}" and place.meets(other):
            return f"its redirect leads to the place of {name.partition('@')[0]}"
    for branch in older:
        for name, text in branch.redirects.items():
            if place.meets(Place(place.kind, _form(place.kind, text))):
                return f"its redirect leads to the place of {name} in branch {branch.name}"
    return ""


def _moved(node: Sink, place: str, branch: Branch) -> Sink:
    write, path = _elsewhere(node.write, node.path, place)
    here = connector_identity.target_id("", node.dataset, node.uid, write, path, node.keyed)
    identity = digest("redirected/1", target=node.identity, place=here, branch=branch.name)
    since = 0 if branch.at == inf else int(branch.at * 1_000)
    return replace(node, write=write, path=path, identity=identity, branch=branch.name, since=since)


def _elsewhere(write: Write, path: str, place: str) -> tuple[Write, str]:
    """The component as its blueprint would have it, and its path."""
    kind = _kind(write)
    if kind == "path":
        return replace(write, path=place), place
    settings = tuple((key, place if key == kind else value) for key, value in write.settings)
    there = path.removesuffix(_text(write)) + place
    return replace(write, path=there, settings=settings), there


def _text(write: Write) -> str:
    return str(dict(write.settings).get(_kind(write), ""))


# --- places ---------------------------------------------------------------------------------------


def _places(desired: Desired) -> Iterator[tuple[str, Place]]:
    """All that is read or written, by component. A redirected one has its branch in its name, which
    separates it from the same component elsewhere."""
    for dataset, node in desired.nodes.items():
        if node.is_source:
            if place := _read_place(node):
                yield dataset, place
        elif node.is_copy:
            yield (f"{dataset}@{node.branch}" if node.branch else dataset), _place(node)


def _place(sink: Sink) -> Place:
    kind = _kind(sink.write)
    return Place(kind, _form(kind, _own_name(sink)))


def _read_place(source: Source) -> Place | None:
    """The tables that a query reads are unknown; it is not written to."""
    settings = dict(source.read.settings)
    for kind in ("table", "topic"):
        if isinstance(name := settings.get(kind), str):
            return Place(kind, _form(kind, name))
    if not connector_identity.is_path(source.read):
        return None
    fixed = []
    for part in source.location.split("/"):
        if any(c in part for c in GLOB_CHARACTERS):
            break
        fixed.append(part)
    return Place("path", _form("path", "/".join(fixed)))


def _kind(write: Write) -> PlaceKind:
    if connector_identity.is_path(write):
        return "path"
    return "topic" if write.connector == "kafka" else "table"


def _own_name(sink: Sink) -> str:
    return sink.path if _kind(sink.write) == "path" else _text(sink.write)


def _form(kind: PlaceKind, text: str) -> str:
    if kind == "table":
        return text.replace('"', "").replace("`", "").casefold()
    if kind == "topic":
        return text
    scheme, _, rest = (
        text.partition("://") if "://" in text else ("", "", text.removeprefix("file:"))
    )
    return ("" if scheme in ("", "file") else f"{scheme}:") + posixpath.normpath(
        "/" + rest.lstrip("/")
    ).casefold()


def _holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


# --- what may be named ----------------------------------------------------------------------------


def _fault(sink: Sink, place: str) -> str:
    """Why a component cannot write there; empty if it can."""
    kind = _kind(sink.write)
    if kind == "table":
        return "" if place.strip() and "\n" not in place else "a table needs a name"
    if kind == "path" and _scheme(place) != _scheme(sink.path):
        return f"{place} is not in the storage that {sink.path} is in"
    if kind == "path" and not place.startswith("/") and "://" not in place:
        return f"{place} is relative to nothing: write one name, or an absolute path"
    return _refused(TO_PATH.kind if kind == "path" else TO_TOPIC.kind, place)


def _scheme(path: str) -> str:
    """With the bucket."""
    scheme, separator, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if separator and scheme != "file" else ""


def _refused(kind: Kind[str], text: str) -> str:
    """As a blueprint that had this text would be."""
    faults = (check(text) for check in kind.checks) if isinstance(kind, Text) else ()
    return next((fault.message for fault in faults if fault is not None), "")


def named(desired: Desired, redirects: Mapping[str, str]) -> dict[str, str]:
    """The places that redirects name, by component. Raises BadRedirect."""
    places: dict[str, str] = {}
    for name, text in redirects.items():
        node: Node | None = desired.nodes.get(name)
        if node is None or node.has_rows:
            raise BadRedirect(
                name, "there is no write component of this name: write FLOW.COMPONENT"
            )
        places[name] = resolved(node, text)
    return places
