"""The command that serves assistants. What it serves is in `mcp_server`, which needs an extra."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from controlplane.cli import options
from controlplane.cli.command import Commands
from controlplane.core.errors import HeadgateError
from controlplane.settings import BadSetting

MOST_TASKS = 200
SHORTEST_TOKEN = 32
LOOPBACK = "127.0.0.1"


class MissingMcp(HeadgateError):
    """The server for assistants needs a package that is not installed. The message says which."""

    code = "missing-package"


def mcp(
    ctx: typer.Context,
    http: Annotated[
        bool, typer.Option("--http", help="Serve HTTP, not standard input and output.")
    ] = False,
    host: Annotated[str, typer.Option(help="The address of --http.")] = LOOPBACK,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The port of --http; 0: a free one.")
    ] = 8430,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The token that clients of --http show; by default a new one."
        ),
    ] = None,
    max_tasks: Annotated[
        int, typer.Option(min=0, help="Tasks that one edit may ask for in a branch.")
    ] = MOST_TASKS,
    home: options.Home = None,
) -> None:
    """Serve AI assistants by the Model Context Protocol: look, query, edit in a branch. Needs
    headgate[mcp]."""
    session = options.session(ctx)
    try:
        from controlplane.cli import mcp_server
    except ImportError as error:
        raise MissingMcp(
            f"the server for assistants needs mcp: pip install 'headgate[mcp]' ({error})"
        ) from error

    with session.connect(home) as client:
        if http:
            mcp_server.serve_http(client, max_tasks, _token(token_file), (host, port))
        else:
            mcp_server.build(client, max_tasks).run("stdio")


def _token(file: Path | None) -> str:
    """The token of a file, or a new one, which is printed once."""
    if file is None:
        token = secrets.token_urlsafe(SHORTEST_TOKEN)
        sys.stderr.write(f"headgate: Authorization: Bearer {token}\n")
        return token
    with file.open(encoding="utf-8") as opened:
        token = opened.read(4096).strip()
    if len(token) < SHORTEST_TOKEN:
        raise BadSetting(f"{file}: a token has at least {SHORTEST_TOKEN} characters")
    return token


COMMANDS: Commands = {"mcp": mcp}
