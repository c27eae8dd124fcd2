"""Commands about trust in issuers of identity tokens: rules for people who sign in, and for CI
jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli.command import ClientRequest, Commands, Group, ask, command, do
from controlplane.cli.output import TextTable, View
from controlplane.cli.rights import Branches, Dataflows, Datasets, ttl_of, within_words

if TYPE_CHECKING:
    from controlplane.core.model.answers.trust import TrustEntry


Name = Annotated[str, typer.Argument(help="Name of the rule.", show_default=False)]


@command
def create_rule(
    name: Name,
    issuer: Annotated[
        str, typer.Option(metavar="URL", help="Who issues the tokens, as they say it.")
    ],
    claim: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=PATTERN",
            help="What a token has to say; * and ? stand for others. One name several times: any of them.",
        ),
    ],
    role: Annotated[
        list[str],
        typer.Option(
            "--role",
            metavar="ROLE",
            help="What its holder may do: view, data, operate, edit, admin, or a role of your own.",
        ),
    ],
    audience: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="Of CI jobs: for whom the token is, such as this service's URL."
        ),
    ] = "",
    login: Annotated[
        bool, typer.Option("--login", help="For people who sign in, not for CI jobs.")
    ] = False,
    dataflow: Dataflows = [],  # noqa: B006  # read only
    dataset: Datasets = [],  # noqa: B006  # read only
    branch: Branches = [],  # noqa: B006  # read only
    expires: Annotated[
        str | None,
        typer.Option(
            help="How long what it opens lives: 30m, 12h; 1h, and 8h for people by default."
        ),
    ] = None,
) -> ClientRequest:
    """Make a rule: whose identity tokens open what."""
    if login == bool(audience):
        raise typer.BadParameter(
            "give --audience for CI jobs, or --login for people", param_hint="--audience"
        )
    claims = _claims(claim)
    return ask(
        lambda client: client.create_trust(
            name,
            "login" if login else "exchange",
            issuer,
            claims,
            role,
            audience=audience,
            ttl_s=ttl_of(expires, None),
            dataflows=dataflow,
            datasets=dataset,
            branches=branch,
        ),
        lambda value: _all([value]),
    )


def _claims(texts: Sequence[str]) -> dict[str, list[str]]:
    """By name; a name may come several times."""
    claims: dict[str, list[str]] = {}
    for text in texts:
        name, is_there, pattern = text.partition("=")
        if not is_there:
            raise typer.BadParameter(
                f"{text}: write NAME=PATTERN, such as repository=acme/flows", param_hint="--claim"
            )
        claims.setdefault(name.strip(), []).append(pattern)
    return claims


@command
def list_rules() -> ClientRequest:
    """List rules, and how many live tokens and sessions each has opened."""
    return ask(lambda client: client.trust(), _all)


@command
def delete_rule(name: Name) -> ClientRequest:
    """End a rule now, and all tokens and sessions that it opened."""
    return do(lambda client: client.delete_trust(name), {"deleted": name})


def _all(items: Sequence[TrustEntry]) -> View:
    columns = (
        "name",
        "for",
        "issuer",
        "audience",
        "claims",
        "roles",
        "within",
        "lives",
        "open",
        "by",
    )
    rows = tuple(
        (
            i["name"],
            "people" if i["use"] == "login" else "jobs",
            i["issuer"],
            i["audience"],
            "; ".join(
                f"{claim}={' or '.join(patterns)}" for claim, patterns in i["claims"].items()
            ),
            ", ".join(i["scopes"]),
            within_words(i["within"]),
            f"{i['ttl_s'] / 60:.0f}m",
            str(i["open"]),
            i["by"],
        )
        for i in items
    )
    return [TextTable(columns, rows)]


COMMANDS: Commands = {
    "trust": Group(
        "Whose identity tokens are trusted: people who sign in, CI jobs (docs/rights.md).",
        {"create": create_rule, "list": list_rules, "delete": delete_rule},
    )
}
