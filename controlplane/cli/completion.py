"""Completion of commands, options and names on Tab: the script for a shell, and the names that a
running service has.

Without a service there are no names to offer: Tab starts none. Does not belong here: values of
choices, which Typer offers.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from controlplane.cli.session import Session

if TYPE_CHECKING:
    from controlplane.client import Headgate

VARIABLE: Final = "_HEADGATE_COMPLETE"  # set by the script: says that names are to be offered
MOST_NAMES = 500
WAIT_S = 2.0  # for the service, at most


class ShellName(StrEnum):
    """A shell that has a script."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Annotated[ShellName, typer.Argument(help="Its name.")]) -> None:
    """Print the script that completes commands and names in a shell.

    Bash: `source <(headgate completion bash)` in ~/.bashrc. Zsh: the same with `zsh` in ~/.zshrc,
    after `compinit`. Fish: `headgate completion fish | source` in config.fish.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # no stub

    script = get_completion_script(prog_name="headgate", complete_var=VARIABLE, shell=shell.value)
    sys.stdout.write(f"{script}\n")


def prepare() -> None:
    """Have Typer answer the scripts, where one of them asks."""
    if VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]  # no stub

        completion_init()


def datasets(ctx: typer.Context, incomplete: str) -> list[str]:
    """Dataflows and their components, `shop` and `shop.orders`."""

    def all_names(client: Headgate, branch: str) -> Iterable[str]:
        for flow in client.dataflows(branch):
            yield flow["name"]
            yield from (f"{flow['name']}.{name}" for name in flow["components"])

    return _offered(ctx, incomplete, all_names)


def branches(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of branches."""

    def all_names(client: Headgate, _: str) -> Iterable[str]:
        return ["main", *(branch["name"] for branch in client.branches())]

    return _offered(ctx, incomplete, all_names)


def _offered(
    ctx: typer.Context, incomplete: str, all_names: Callable[[Headgate, str], Iterable[str]]
) -> list[str]:
    """Names with this beginning. None where there is no service, or it does not answer: a shell
    shows no errors on Tab."""
    session = ctx.find_object(Session)
    names: list[str] = []

    def look() -> None:
        assert session is not None
        with suppress(Exception), session.service_client(ctx.params.get("home")) as client:
            if client is not None:
                names.extend(all_names(client, ctx.params.get("branch") or "main"))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    return sorted({name for name in [*names] if name.startswith(incomplete)})[:MOST_NAMES]


COMMANDS: Final = {"completion": completion}
