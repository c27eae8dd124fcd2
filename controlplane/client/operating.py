"""Requests of an operator: refresh, retry, pause, going back; and looking after the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from controlplane.client.connection import LONG_TIMEOUT_S, HttpConnection
from controlplane.client.requests import match_of
from controlplane.core import rest

if TYPE_CHECKING:
    from controlplane.core.model.answers import (
        ApplyAnswer,
        CollectAnswer,
        FsckAnswer,
        ImportAnswer,
        PauseAllAnswer,
        PauseAnswer,
        RefreshAnswer,
        RetryAnswer,
        RollbackAnswer,
    )


class OperateCalls(HttpConnection):
    """Refresh, retry, pause, going back; and looking after the database."""

    def refresh(
        self,
        target: str | None = None,
        *,
        branch: str = "main",
        accept_deletes: bool = False,
        force: bool = False,
        partitions: tuple[str, str | None] | None = None,
        schema: bool = False,
        wait_s: float = 0.0,
    ) -> RefreshAnswer:
        """`partitions`: compute those of one dataset again whose keys are from the first to the
        second, both inclusive; with None, to the last one. `wait_s`: how long to wait at most for
        the listings, whose changes are under `changes` then."""
        body: dict[str, object] = {
            "target": target,
            "accept_deletes": accept_deletes,
            "force": force,
        }
        if partitions is not None:
            body["partitions"] = {"first": partitions[0], "last": partitions[1]}
        body |= {"schema": True} if schema else {}  # which an earlier service does not know
        body |= {"wait_s": wait_s} if wait_s else {}  # which an earlier service does not know
        return self._call(rest.REFRESH, self._waiting(wait_s), branch=branch, **body)

    def retry(
        self,
        target: str | None = None,
        *,
        branch: str = "main",
        tasks: Sequence[str] | None = None,
        partition: str | None = None,
    ) -> RetryAnswer:
        """Try failed work again; with `tasks`, only what still wants one of these; with
        `partition`, only this one of the dataset that `target` names, and nothing upstream of
        it."""
        body: dict[str, object] = {"target": target} | (
            {} if tasks is None else {"tasks": list(tasks)}
        )
        body |= {} if partition is None else {"partition": partition}
        return self._call(rest.RETRY, branch=branch, **body)

    def pause(
        self, target: str | None = None, *, branch: str = "main"
    ) -> PauseAnswer | PauseAllAnswer:
        return self._call(rest.PAUSE, branch=branch, target=target)

    def resume(
        self, target: str | None = None, *, branch: str = "main"
    ) -> PauseAnswer | PauseAllAnswer:
        return self._call(rest.RESUME, branch=branch, target=target)

    def rollback(
        self,
        target: str,
        *,
        generation: int | None = None,
        at: str | None = None,
        reason: str = "",
        force: bool = False,
        branch: str = "main",
        override: bool = False,
    ) -> RollbackAnswer:
        """Go back to a generation of a dataset, or to the state of a dataset or dataflow at a time,
        until `resume`."""
        body = {
            "target": target,
            "generation": generation,
            "at": at,
            "reason": reason,
            "force": force,
        }
        return self._call(rest.ROLLBACK, branch=branch, override=override or None, **body)

    def import_table(
        self,
        target: str,
        source: str,
        *,
        key: Sequence[str] = (),
        verify: int = 0,
        link: bool = False,
        branch: str = "main",
        override: bool = False,
    ) -> ImportAnswer:
        """Take a table (`delta:PATH`, `iceberg:PATH`, `parquet:FOLDER`,
        `dataset:DATAFLOW.DATASET`) as the newest generation of a transform. Repeat it until its
        `state` is `imported`, or `differs`: the code of the transform computes other rows for some
        of `verify` partitions. `link`: Parquet files are taken as they are, and `{word}` in their
        path makes the partition key."""
        body = {
            "target": target,
            "from": source,
            "key": list(key),
            "verify": verify,
            "link": link,
        }
        return self._call(
            rest.IMPORT, LONG_TIMEOUT_S, branch=branch, override=override or None, **body
        )

    def revert(
        self,
        dataflow: str,
        to: int,
        *,
        branch: str = "main",
        dry_run: bool = False,
        revision: int | None = None,
        override: bool = False,
    ) -> ApplyAnswer:
        """Store the text of revision `to` again. `revision`: only if the dataflow is there now."""
        revert = {"to": to, "dry_run": dry_run, "override": override or None}
        return self._call(
            rest.REVERT, None, match_of(revision), branch=branch, dataflow=dataflow, **revert
        )

    def gc(self, *, packs: bool = False) -> CollectAnswer:
        """Collect what nothing refers to any more; how many rows of each kind went. With `packs`,
        all packs are given up, too, and made again in time."""
        body = {"packs": True} if packs else {}
        return self._call(rest.GC, LONG_TIMEOUT_S, **body)

    def fsck(
        self,
        *,
        files: bool = False,
        contents: bool = False,
        dataset: str | None = None,
        repair: bool = False,
        types: bool = False,
    ) -> FsckAnswer:
        """Check the database; faults are `findings`.

        With `files`, files in the lake are looked for, too. `contents`: all rows are read, or those
        of one `dataset`, and compared with the recorded contents. `repair`: lost or damaged files
        are made again, which `repaired` reports. `types`: also columns that an earlier version
        misread.
        """
        body: dict[str, bool | str | None] = {"files": files, "repair": repair}
        if contents:
            body |= {"contents": True, "dataset": dataset}
        if types:
            body["types"] = True
        return self._call(rest.FSCK, LONG_TIMEOUT_S, **body)
