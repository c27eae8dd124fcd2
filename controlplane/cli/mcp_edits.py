"""Tools of assistants that edit, in branches that this process created."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from httpx2 import TransportError
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from controlplane.cli import operate
from controlplane.client import Document, Headgate

if TYPE_CHECKING:
    from controlplane.core.model.answers import PlanAnswer, StatusAnswer

PREFIX = "mcp-"
LISTING_S = 60.0
Name = Annotated[str, Field(description="Of the branch, without the `mcp-` before it.")]
Days = Annotated[float, Field(gt=0, le=30, description="Without an edit until it ends.")]
Seconds = Annotated[
    float, Field(ge=0, le=600, description="For the listing, and again for results.")
]


@dataclass
class EditedBlueprint:
    """`name`: the absolute path, as `blueprint` gives it; `files`: texts by relative path."""

    name: str
    text: str
    files: dict[str, str] = field(default_factory=dict)


class EditTools:
    """The tools. `max_tasks`: how many one edit may ask for."""

    def __init__(self, client: Headgate, max_tasks: int) -> None:
        self._client, self._max_tasks = client, max_tasks
        self._own: set[str] = set()

    def edit_branch(
        self,
        name: Name,
        blueprints: list[EditedBlueprint],
        days: Days = 7,
        timeout_s: Seconds = 120,
    ) -> object:
        """Store blueprints in a branch of your own, which is created if need be, and wait for its
        results. main stays as it is; a person merges."""
        branch, documents = _branch(name), documents_of(blueprints)
        with ExitStack() as undo:
            if branch not in self._own:
                self._client.create_branch(branch, days=days)
                self._own.add(branch)
                undo.callback(self._drop, branch)
            plan = self._plan(branch, documents, min(timeout_s, LISTING_S))
            applied = self._client.carry_out(documents, plan["basis"], branch=branch)
            undo.pop_all()
        return {
            "branch": branch,
            "revisions": applied["revisions"],
            "plan": without_basis(plan),
            **self._outcome(branch, time.monotonic() + timeout_s),
            "merge": f"a person runs: headgate branch merge {branch} --dry-run, then without it",
        }

    def drop_branch(self, name: Name) -> object:
        """End a branch that `edit_branch` created."""
        branch = _branch(name)
        if branch not in self._own:
            raise ToolError(f"foreign-branch: {branch} was not created by this server")
        return self._drop(branch)

    def _drop(self, branch: str) -> object:
        dropped = self._client.delete_branch(branch)
        self._own.discard(branch)
        return dropped

    def _plan(self, branch: str, documents: Sequence[Document], listing_s: float) -> PlanAnswer:
        """The plan, if its work is known and within the limit. Raises ToolError."""
        has_loop = self._client.status(branch=branch)["leader"] is not None
        refresh_s = listing_s if has_loop else None
        applied = self._client.apply(documents, branch=branch, dry_run=True, refresh_s=refresh_s)
        plan = applied["plan"]
        unknown = [source["dataset"] for source in plan["sources"] if source["as_of"] is None]
        if unknown:
            raise ToolError(
                f"unknown-work: {', '.join(unknown[:10])} was never listed, so the"
                " number of tasks is unknown; a person starts `headgate serve`, with workers"
            )
        tasks = plan["certain"] + plan["possible"]
        if tasks > self._max_tasks:
            raise ToolError(
                f"too-many-tasks: the edit asks for {tasks} tasks, the limit is {self._max_tasks};"
                " read less, or a person starts `headgate mcp` with --max-tasks"
            )
        return plan

    def _outcome(self, branch: str, deadline: float) -> dict[str, object]:
        """How the edited dataflows stand once nothing of them moves, or at the deadline."""
        edited = set(self._client.branch(branch)["dataflows"])

        def edited_part() -> StatusAnswer:
            status = self._client.status(branch=branch)
            flows = [flow for flow in status["dataflows"] if flow["name"] in edited]
            return {**status, "dataflows": flows}

        status = edited_part()
        has_loop = status["leader"] is not None
        if has_loop and operate.moves(status) and time.monotonic() < deadline:
            with suppress(TransportError):
                for _ in self._client.events(branch=branch):
                    status = edited_part()
                    if not operate.moves(status) or time.monotonic() >= deadline:
                        break
        note = {} if has_loop else {"note": "no service runs, so nothing is computed"}
        return {"settled": not operate.moves(status), "dataflows": status["dataflows"], **note}


def documents_of(blueprints: Sequence[EditedBlueprint]) -> list[Document]:
    return [{"name": b.name, "text": b.text, "files": b.files} for b in blueprints]


def without_basis(plan: PlanAnswer) -> dict[str, object]:
    """The plan without hashes that only `carry_out` reads."""
    return {key: part for key, part in plan.items() if key != "basis"}


def _branch(name: str) -> str:
    """The name of the branch. Raises ToolError for main."""
    if name == "main":
        raise ToolError("foreign-branch: main is changed by people, by a merge")
    return PREFIX + name.removeprefix(PREFIX)
