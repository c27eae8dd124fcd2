"""The command that opens the pages in a browser, without a token in any address."""

from __future__ import annotations

import sys
import webbrowser
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, urlsplit

import typer

from controlplane import settings
from controlplane.cli import options
from controlplane.cli.command import Commands
from controlplane.cli.output import Lines, show
from controlplane.cli.session import Output, service_of

if TYPE_CHECKING:
    from controlplane.client import Headgate

# What listens on all of them is reached by this one
EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}


def open_pages(
    ctx: typer.Context,
    target: options.Target = None,
    only_print: Annotated[
        bool,
        typer.Option(
            "--print",
            help="Print the link, which works once within five minutes, and open nothing.",
        ),
    ] = False,
    home: options.Home = None,
    output: options.As = options.OutputForm.table,
) -> None:
    """Open the pages in a browser, signed in. Where no service runs, the home is shown until
    Ctrl-C, and nothing in it is computed."""
    from controlplane.cli.signals import ending, outlast

    session = options.session(ctx, output)
    chosen = settings.read(home)
    with ExitStack() as ends:
        if (service := service_of(chosen)) is not None:
            _open(
                ends.enter_context(service.open(chosen)),
                target,
                only_print=only_print,
                output=session.output,
            )
            return
        from controlplane.client import Headgate

        own = ends.enter_context(session.runtime.start(chosen, "show"))
        ends.enter_context(ending(own.interrupt))
        client = ends.enter_context(Headgate(own.url, own.token))
        _open(client, target, only_print=only_print, output=session.output)
        sys.stderr.write(
            f"headgate shows {chosen.home} at {own.url} until Ctrl-C; nothing is computed\n"
        )
        sys.stderr.flush()
        outlast(own.stopping.wait)
        if own.failure is not None:
            raise own.failure


def _open(client: Headgate, target: str | None, *, only_print: bool, output: Output) -> None:
    made = client.session_link()
    url = f"{_reachable(client.url)}{made['path']}"
    if target is not None:
        place = "datasets" if "." in target else "flows"
        url += f"&next={quote(f'/{place}/{target}', safe='')}"
    is_open = not only_print and webbrowser.open(url)
    if output != "table":
        show({"url": url, "expires": made["expires"]}, [Lines((url,))], output)
    elif not is_open:
        sys.stdout.write(f"{url}\n")  # in one line, however narrow the terminal: people click it
    sys.stdout.flush()  # a script may read the link while we go on


def _reachable(url: str) -> str:
    """By an address that a browser can be sent to."""
    parts = urlsplit(url)
    host, colon, port = parts.netloc.rpartition(":")
    return parts._replace(netloc=f"{EVERY_ADDRESS.get(host, host)}{colon}{port}").geturl()


COMMANDS: Commands = {"open": open_pages}
