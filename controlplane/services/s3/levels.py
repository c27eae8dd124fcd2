"""The levels above objects: refs, dataflows and datasets that a key may see, in the order of their
folders.

A ref with a time, and a dataset with a generation, exist where a request names them: no listing
shows them by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controlplane.core.model.branches import MAIN
from controlplane.ports.store import Tx
from controlplane.services.s3 import s3_addresses
from controlplane.services.s3.key_scope import Reader
from controlplane.services.s3.s3_addresses import Ref, TableAddress

LEVELS = 3


def is_above_tables(prefix: str) -> bool:
    return prefix.count("/") < LEVELS


def is_there(tx: Tx, ref: Ref) -> bool:
    """A future time is no address: its meaning would move."""
    has_come = ref.time is None or ref.time.end <= tx.now()
    return has_come and (ref.branch == MAIN or ref.branch in tx.branches.all())


def names(tx: Tx, reader: Reader, prefix: str) -> list[str]:
    """The folders one level below the last slash of the prefix, as whole prefixes that begin with
    it."""
    level = prefix.count("/")
    if level == 0:
        folders = {f"{ref}/" for ref in _refs(tx, reader, prefix)}
    else:
        tables = _tables(tx, reader, prefix)
        folders = {"/".join(table.folder.split("/")[: level + 1]) + "/" for table in tables}
    return sorted(name for name in folders if name.startswith(prefix))


def tables(tx: Tx, reader: Reader, prefix: str, after: str) -> Iterator[TableAddress]:
    """The datasets that may have objects with the prefix behind `after`."""
    for table in _tables(tx, reader, prefix):
        folder = table.folder
        is_meant = folder.startswith(prefix) or prefix.startswith(folder)
        if is_meant and (folder > after or after.startswith(folder)):
            yield table


def _refs(tx: Tx, reader: Reader, prefix: str) -> list[str]:
    """Texts of refs, in the order of their folders."""
    named, is_whole, _ = prefix.partition("/")
    texts = (
        {named}
        if is_whole
        else {b for b in (MAIN, *tx.branches.all()) if b.startswith(named)} | {named}
    )
    refs = []
    for text in texts:
        ref = s3_addresses.ref(text)
        if ref is not None and is_there(tx, ref) and reader.may_see_part_of(ref):
            refs.append(text)
    return sorted(refs, key=lambda text: f"{text}/")


def _tables(tx: Tx, reader: Reader, prefix: str) -> Iterator[TableAddress]:
    _, *below = prefix.split("/")
    for ref in _refs(tx, reader, prefix):
        branch = ref.partition("@")[0]
        datasets = _datasets(tx, branch, below)
        folders = sorted(f"{name.replace('.', '/', 1)}/" for name in datasets)
        yield from _readable(reader, ref, folders)


def _datasets(tx: Tx, branch: str, below: list[str]) -> Iterable[str]:
    """`below`: the part of the prefix below the ref. A dataset that it names is found directly,
    without a search of all."""
    if len(below) > LEVELS - 1:
        return [f"{below[0]}.{below[1]}"]
    datasets = list(tx.states.newest(branch))
    if len(below) == LEVELS - 1 and "@" in below[1]:
        datasets.append(f"{below[0]}.{below[1]}")
    return datasets


def _readable(reader: Reader, ref: str, folders: Iterable[str]) -> Iterator[TableAddress]:
    for folder in folders:
        dataflow, dataset, _ = folder.split("/", LEVELS - 1)
        table = s3_addresses.table(ref, dataflow, dataset)
        if table is not None and reader.may_read(table):
            yield table
