"""The Delta log of one state: version 0 of a table that never changes, whose files lie beside it.
Pure.

It is a function of the state, made on demand, and never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controlplane.core.model.states import State
from controlplane.core.s3 import delta_actions
from controlplane.core.s3.delta_actions import TableFile
from dataplane.contract.delta_log import LOG, commit_body, commit_name
from dataplane.contract.schemas import Json

FILE = f"{LOG}/{commit_name(0)}"


def log(state: State, parts: Iterable[TableFile]) -> bytes:
    """The body of the log's only file. `parts`: all files of the state."""
    return commit_body(_actions(state, parts))


def _actions(state: State, parts: Iterable[TableFile]) -> Iterator[Json]:
    milliseconds = int(state.at * 1000)
    yield delta_actions.protocol(state.schema)
    yield delta_actions.metadata(
        delta_actions.table_id(state.root.hex()), state.schema, milliseconds
    )
    yield from (delta_actions.add(part, milliseconds) for part in parts)
    yield delta_actions.commit_info(milliseconds)
