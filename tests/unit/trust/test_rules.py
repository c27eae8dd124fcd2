"""Which rule fits which claims, what is no rule, and what holders are called."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.core import trust_rules
from controlplane.core.errors import BadIdentity, BadScope, BadTrust
from controlplane.core.model.json_values import JsonObject
from controlplane.core.model.trust import TrustRule, Use
from controlplane.core.rights import EVERYWHERE, TokenScope

ISSUER = "https://token.actions.githubusercontent.com"


def rule(name: str = "ci", **other: Any) -> TrustRule:
    given = {
        "id": name,
        "use": "exchange",
        "issuer": ISSUER,
        "audience": "https://headgate.example.com",
        "claims": {"repository": ("acme/flows",), "ref": ("refs/heads/main",)},
        "roles": ("edit",),
        "within": EVERYWHERE,
        "ttl_s": 3600.0,
        "actor": "ada",
        "at": 1.0,
    }
    return TrustRule(name=name, **{**given, **other})


@pytest.mark.parametrize(
    ("patterns", "claims", "fits"),
    [
        ({"ref": ("refs/heads/main",)}, {"ref": "refs/heads/main"}, True),
        ({"ref": ("refs/heads/main",)}, {"ref": "refs/heads/main2"}, False),
        ({"ref": ("refs/heads/main",)}, {"ref": "refs/heads/Main"}, False),
        ({"ref": ("refs/heads/main",)}, {"ref": "refs/heads/main\n"}, False),
        ({"ref": ("refs/heads/main",)}, {}, False),
        ({"ref": ("refs/tags/v*",)}, {"ref": "refs/tags/v1.2"}, True),
        ({"ref": ("refs/tags/v*",)}, {"ref": "refs/heads/refs/tags/v1"}, False),
        ({"ref": ("refs/tags/v?",)}, {"ref": "refs/tags/v12"}, False),
        ({"ref": ("release[1]",)}, {"ref": "release1"}, False),
        ({"ref": ("release[1]",)}, {"ref": "release[1]"}, True),
        ({"repository": ("acme/*",)}, {"repository": "acme-evil/flows"}, False),
        (
            {"repository": ("acme/flows",), "ref": ("main",)},
            {"repository": "acme/flows", "ref": "dev"},
            False,
        ),
        ({"groups": ("data", "platform")}, {"groups": ["all", "platform"]}, True),
        ({"groups": ("data",)}, {"groups": ["database"]}, False),
        ({"groups": ("data",)}, {"groups": [["data"]]}, False),
        ({"groups": ("data",)}, {"groups": {"data": True}}, False),
        ({"realm_access.roles": ("data",)}, {"realm_access": {"roles": ["data"]}}, True),
        ({"https://acme.com/roles": ("data",)}, {"https://acme.com/roles": ["data"]}, True),
        ({"project_id": ("17",)}, {"project_id": 17}, True),
        ({"ref_protected": ("true",)}, {"ref_protected": True}, True),
        ({"email": ("*@acme.com",)}, {"email": "eve@acme.com"}, False),
        ({"email": ("*@acme.com",)}, {"email": "eve@acme.com", "email_verified": "true"}, False),
        ({"email": ("*@acme.com",)}, {"email": "ada@acme.com", "email_verified": True}, True),
    ],
)
def test_a_rule_fits_where_each_claim_does(
    patterns: dict[str, Any], claims: JsonObject, fits: bool
) -> None:
    assert trust_rules.fits(rule(claims=patterns), claims) is fits


def test_the_rule_that_allows_most_is_taken_and_rather_one_that_is_not_narrowed() -> None:
    everybody = {"sub": ("*",)}
    read, all_of_it = (
        rule("a-read", claims=everybody, roles=("data",)),
        rule("z", claims=everybody, roles=("admin",)),
    )
    narrow = rule("a-narrow", claims=everybody, within=TokenScope(dataflows=("sales",)))
    wide, also = rule("wide", claims=everybody), rule("wide-too", claims=everybody)
    nobodys = rule("nobody", claims={"sub": ("u2",)}, roles=("admin",))
    claims: JsonObject = {"sub": "u1"}
    assert trust_rules.best([read, all_of_it, narrow, nobodys], claims) == all_of_it
    assert trust_rules.best([read, narrow, also, wide, nobodys], claims) == wide
    assert trust_rules.best([nobodys], claims) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "Has Blanks"},
        {"issuer": "token.actions.githubusercontent.com"},
        {"issuer": "http://login.example.com"},
        {"issuer": "https://user:password@login.example.com"},
        {"issuer": "https://login.example.com?a=b"},
        {"issuer": "file:///etc/passwd"},
        {"audience": ""},
        {"use": "login"},
        {"claims": {}},
        {"claims": {"sub": ("*",)}},
        {"claims": {"sub": ("acme", "**?")}},
        {"claims": {"bad name": ("x",)}},
        {"claims": {"sub": ("",)}},
        {"claims": {"sub": ()}},
        {"claims": {"sub": ("x\x00",)}},
        {"roles": ()},
        {"roles": ("driver",)},
        {"ttl_s": 59.0},
        {"ttl_s": 86_401.0},
    ],
)
def test_what_is_no_rule_is_refused(wrong: dict[str, Any]) -> None:
    trust_rules.check(rule())
    with pytest.raises(BadTrust):
        trust_rules.check(rule(**{"name": "ci", **wrong}))


def test_a_rule_cannot_narrow_administrators() -> None:
    with pytest.raises(BadScope):
        trust_rules.check(rule(roles=("admin",), within=TokenScope(dataflows=("sales",))))


def test_anybody_of_an_issuer_may_be_let_in_as_a_person() -> None:
    trust_rules.check(rule(use="login", audience="", claims={"sub": ("*",)}, roles=("view",)))


@pytest.mark.parametrize(
    ("use", "claims", "name"),
    [
        ("login", {"sub": "u1", "email": "ada@acme.com", "email_verified": True}, "ada@acme.com"),
        ("login", {"sub": "u1", "email": "ada@acme.com"}, "u1@token.actions.githubusercontent.com"),
        (
            "login",
            {"sub": "loop", "email": "loop", "email_verified": True},
            "loop@token.actions.githubusercontent.com",
        ),
        (
            "exchange",
            {"sub": "s", "repository": "acme/flows", "ref": "refs/heads/main"},
            "acme/flows@refs/heads/main",
        ),
        ("exchange", {"sub": "s", "project_path": "acme/flows", "ref": "main"}, "acme/flows@main"),
        ("exchange", {"sub": "job-7"}, "job-7@token.actions.githubusercontent.com"),
    ],
)
def test_the_audit_names_people_and_jobs(use: Use, claims: JsonObject, name: str) -> None:
    assert trust_rules.who(use, ISSUER, claims) == name


@pytest.mark.parametrize("sub", ["", "a\nb", "\u202egnp", "x" * 400])
def test_who_cannot_be_named_gets_nothing(sub: str) -> None:
    with pytest.raises(BadIdentity):
        trust_rules.who("exchange", ISSUER, {"sub": sub})
