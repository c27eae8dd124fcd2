"""`notify:` in blueprints, and the installation's own file."""

from __future__ import annotations

import re

import pytest

from controlplane.core.blueprint import parse
from controlplane.core.blueprint.notify import parse_channels
from controlplane.core.errors import InvalidBlueprint
from controlplane.core.model.alerts import Channel

FLOW = """\
dataflow: shop
components:
  orders: {read: {connector: files, path: /a/*.csv, format: csv}}
notify:
"""
MAIL = "{to: email, address: [ops@example.com], from: h@example.com, server: 'smtp://mail:25'}"
LINK_LOCAL = (
    "http://169.254.169.254/latest",
    "https://169.254.0.1:8443/x",
    "http://0xa9fea9fe/",
    "http://2852039166/",
    "http://0251.0376.0251.0376/",
    "http://169.254.43518/",
    "http://169.254.169.254./",
    "http://169\u3002254\u3002169\u3002254/",
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[64:ff9b::a9fe:a9fe]/",
)


def test_channels_of_a_dataflow() -> None:
    hook = "  - {to: webhook, url: 'https://example.com/x', secret: secret://hook/key, on: [failed], after: 30m}\n"
    found = parse(f"{FLOW}{hook}  - {MAIL}\n", file="a.yaml").notify
    settings = (("secret", "secret://hook/key"), ("url", "https://example.com/x"))
    assert found[0] == Channel("webhook", ("failed",), 1800.0, settings)
    assert (found[0].place, found[1].place) == ("https://example.com/x", "ops@example.com")


@pytest.mark.parametrize(
    ("channel", "code"),
    [
        ("{to: webhook}", "missing-key"),
        ("{to: webhook, url: 'ftp://x'}", "invalid-value"),
        ("{to: webhook, url: 'https://x', secret: abcdefgh}", "literal-secret"),
        ("{to: slack, url: secret://slack/url, address: [a@b]}", "conflicting-keys"),
        ("{to: webhook, url: 'https://x', on: [fails]}", "invalid-value"),
        ("{to: webhook, url: 'https://x', after: manual}", "invalid-duration"),
        *(("{to: webhook, url: '" + url + "'}", "place-refused") for url in LINK_LOCAL),
        (MAIL.replace("ops@example.com", "ops"), "invalid-value"),
        (re.sub(r"server: [^,}]+", "server: smtp://169.254.169.254:25", MAIL), "place-refused"),
        ("{to: command, command: [rm]}", "invalid-value"),
        ("{to: webhook, url: 'https://x', jumps: [speed]}", "invalid-value"),
    ],
)
def test_mistakes_are_told_with_their_place(channel: str, code: str) -> None:
    with pytest.raises(InvalidBlueprint) as caught:
        parse(f"{FLOW}  - {channel}\n", file="a.yaml")
    assert code in [problem.code for problem in caught.value.problems]
    assert {problem.line for problem in caught.value.problems} == {5}


def test_a_channel_names_measures_and_datasets_of_its_dataflow() -> None:
    hook = "  - {to: webhook, url: 'https://x', jumps: [rows, run_time], datasets: [%s]}\n"
    (channel,) = parse(FLOW + hook % "orders, orders__quarantine", file="a.yaml").notify
    assert channel.jumps == ("rows", "run_time")
    assert channel.datasets == ("orders", "orders__quarantine")
    with pytest.raises(InvalidBlueprint, match="dataset 'order', which is no component") as caught:
        parse(FLOW + hook % "order", file="a.yaml")
    (problem,) = caught.value.problems
    assert (problem.code, "orders" in problem.hint) == ("unknown-reference", True)
    others = "".join(f"  c{n}: {{transform: {{sql: SELECT * FROM orders}}}}\n" for n in range(500))
    with pytest.raises(InvalidBlueprint) as caught:
        parse(FLOW.replace("components:\n", f"components:\n{others}") + hook % "zz", file="a.yaml")
    assert max(len(problem.hint) for problem in caught.value.problems) < 100


def test_only_the_installation_may_name_a_command() -> None:
    (found,) = parse_channels(
        "notify:\n  - {to: command, command: [/bin/tell, ops]}\n", file="notify.yaml"
    )
    assert (found.to, found.place) == ("command", "/bin/tell ops")
    with pytest.raises(InvalidBlueprint):
        parse_channels("tell: []\n", file="notify.yaml")
