"""Commands that ask a control plane for one answer: they say what to ask and how to show it, the
rest is done here.

    @command
    def history(dataset: options.DatasetAt, branch: options.Branch = "main") -> Request:
        \"\"\"Show the generations of a dataset.\"\"\"
        return ask(lambda client: client.history(dataset, branch=branch), views.history)

This command takes --home and --output, too. It connects, asks, and shows the answer in the form of
--output.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import typer

from controlplane.cli import failures, options
from controlplane.cli.output import View, show
from controlplane.cli.session import NoService, Role
from controlplane.cli.views import fields

if TYPE_CHECKING:
    from controlplane.client import Headgate

Answer = TypeVar("Answer")
Command: TypeAlias = Callable[..., None]

CONTEXT = Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)
HOME = Parameter("home", Parameter.KEYWORD_ONLY, default=None, annotation=options.Home)
OUTPUT = Parameter(
    "output", Parameter.KEYWORD_ONLY, default=options.OutputForm.table, annotation=options.As
)


@dataclass(frozen=True, slots=True)
class Group:
    """Commands below one name. `help`: the line that `headgate --help` shows."""

    help: str
    commands: Mapping[str, Command | Group]


Commands: TypeAlias = Mapping[str, Command | Group]


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """One call of the client. `is_failure`: whether this answer ends the command with 1.
    `needs_service`: why a process that ends at once cannot do it; empty where it can."""

    call: Callable[[Headgate], Any]
    view: Callable[[Any], View]
    is_failure: Callable[[Any], bool]
    needs_service: str
    role: Role


def ask(
    call: Callable[[Headgate], Answer],
    view: Callable[[Answer], View],
    *,
    is_failure: Callable[[Answer], bool] = lambda _: False,
    needs_service: str = "",
    role: Role = "look",
) -> ClientRequest:
    return ClientRequest(call, view, is_failure, needs_service, role)


def do(
    call: Callable[[Headgate], None], outcome: Mapping[str, str], *, needs_service: str = ""
) -> ClientRequest:
    """For a call without an answer: `outcome` is shown once it is done."""

    def done(client: Headgate) -> Mapping[str, str]:
        call(client)
        return outcome

    return ask(done, fields, needs_service=needs_service)


def command(function: Callable[..., ClientRequest]) -> Command:
    """The command that makes the request. `home` and `output` are added to its arguments."""

    @wraps(function)
    def run(
        ctx: typer.Context, home: Path | None, output: options.OutputForm, **arguments: Any
    ) -> None:
        session = options.session(ctx, output)
        request = function(**arguments)
        with session.connect(home, request.role) as client:
            if request.needs_service and session.service is None:
                raise NoService(
                    f"no service runs on this home, {request.needs_service}; start `headgate serve`"
                )
            answer = request.call(client)
        show(answer, request.view(answer), session.output)
        if request.is_failure(answer):
            raise typer.Exit(failures.ERROR)

    own = inspect.signature(function, eval_str=True).parameters.values()
    parameters = _with_shared(parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in own)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # which Typer reads
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _with_shared(own: Iterable[Parameter]) -> list[Parameter]:
    """Options that commands share stand behind the others, in one order: home, branch, output."""
    others: list[Parameter] = []
    branch: list[Parameter] = []
    for parameter in own:
        (branch if parameter.annotation is options.Branch else others).append(parameter)
    return [CONTEXT, *others, HOME, *branch, OUTPUT]
