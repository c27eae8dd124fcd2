"""CI jobs exchange their identity for a token; the command line does it by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from controlplane.api.token_watch import LOOK_AGAIN_S
from controlplane.client import ApiError, Headgate
from controlplane.core.errors import BadTrust, NotFound
from controlplane.core.rights import TokenScope
from controlplane.home import Home
from controlplane.operations.desired import namespaces, roles, tokens, trust
from tests.unit.trust.world import AUDIENCE, JOB, Command, Trusting

MAIN: dict[str, list[str]] = {
    "repository": ["acme/flows"],
    "ref": ["refs/heads/main", "refs/tags/v*"],
}


def bearer(place: Trusting, answer: httpx2.Response) -> httpx2.Client:
    assert answer.status_code == 201, answer.text
    return place.http(answer.json()["token"])


def test_a_job_gets_the_role_of_its_rule_for_a_while(place: Trusting) -> None:
    place.trust(
        "ci", "exchange", MAIN, ["edit"], within=TokenScope(dataflows=("sales_*",)), ttl_s=900
    )
    answer = place.exchange(place.job())
    made = answer.json()
    assert (made["rule"], made["name"], made["scopes"]) == (
        "ci",
        "acme/flows@refs/heads/main",
        ["edit"],
    )
    assert made["within"]["dataflows"] == ["sales_*"]
    assert made["expires"] == pytest.approx(made["at"] + 900)
    with bearer(place, answer) as http:
        assert http.get("/v1/branches").status_code == 200
        assert http.get("/v1/tokens").status_code == 403
    (who, what), *_ = place.audit("token.exchange")
    assert who == "acme/flows@refs/heads/main"
    assert what["claims"] == JOB
    assert (what["rule"], what["issuer"]) == ("ci", place.issuer.url)


def test_a_rule_gives_a_role_of_ones_own_as_it_is_now(place: Trusting) -> None:
    roles.create(place.context, "deploy", ["edit"], within=TokenScope(dataflows=("sales",)))
    roles.create(place.context, "look", ["view"])
    place.trust("few", "exchange", MAIN, ["look"])
    place.trust("more", "exchange", MAIN, ["deploy"])
    answer = place.exchange(place.job())
    assert (answer.json()["rule"], answer.json()["scopes"]) == ("more", ["deploy"])
    with bearer(place, answer) as http:
        assert http.post("/v1/validate", json={}).status_code == 422
        roles.change(place.context, "deploy", ["view"])
        assert http.post("/v1/validate", json={}).status_code == 403
    with pytest.raises(BadTrust, match="admin, deploy, look"):
        place.trust("other", "exchange", MAIN, ["nobody"])


def test_a_tag_fits_the_pattern_and_what_the_job_does_is_told_by_its_name(place: Trusting) -> None:
    place.trust("ci", "exchange", MAIN, ["admin"])
    with bearer(place, place.exchange(place.job(ref="refs/tags/v1"))) as http:
        assert http.post("/v1/tokens", json={"name": "made"}).status_code == 201
    assert next(who for who, _ in place.audit("token.create")) == "acme/flows@refs/tags/v1"


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("claims", "status", "words"),
    [
        ({"ref": "refs/heads/dev"}, 403, "no rule gives a role here"),
        ({"ref": "refs/pull/1/merge"}, 403, "refs/pull/1/merge"),
        ({"repository": "eve/flows"}, 403, "eve/flows"),
        ({"repository": None}, 403, "no rule"),
        ({"aud": "https://other.example.com"}, 403, "https://other.example.com"),
        ({"aud": [AUDIENCE, "https://other.example.com"]}, 403, "several audiences"),
        (
            {"iss": "https://evil.example.com"},
            403,
            "no rule trusts identity tokens of 'https://evil.example.com'",
        ),
        ({"exp": 1}, 401, "expired"),
        ({"sub": None}, 401, "sub"),
    ],
)
def test_others_get_nothing_and_are_told_why(
    claims: Mapping[str, Any], status: int, words: str, place: Trusting
) -> None:
    place.trust("ci", "exchange", MAIN, ["edit"])
    place.trust("people", "login", {"repository": ["*"]}, ["admin"])
    answer = place.exchange(place.issuer.token(**{"audience": AUDIENCE, **JOB, **_renamed(claims)}))
    assert answer.status_code == status
    assert words in answer.json()["detail"]
    assert place.audit("token.exchange") == []


def _renamed(claims: Mapping[str, Any]) -> dict[str, Any]:
    return {"audience" if name == "aud" else name: value for name, value in claims.items()}


@pytest.mark.hostile
@pytest.mark.parametrize(
    "body",
    [{}, {"token": ""}, {"token": "x"}, {"token": "a.b.c"}, {"token": 1}, {"token": "x" * 20_000}],
)
def test_what_is_no_identity_token_is_refused(body: dict[str, Any], place: Trusting) -> None:
    place.trust("ci", "exchange", MAIN, ["edit"])
    with place.http() as http:
        assert http.post("/v1/tokens/exchange", json=body).status_code in (401, 422)
    assert place.issuer.asked["/keys"] == 0


@pytest.mark.hostile
def test_an_issuer_that_no_rule_names_is_not_asked(place: Trusting) -> None:
    assert place.exchange(place.job()).status_code == 403
    assert sum(place.issuer.asked.values()) == 0


def test_an_identity_token_itself_opens_no_other_call(place: Trusting) -> None:
    place.trust("ci", "exchange", MAIN, ["edit"])
    with place.http(place.job()) as http:
        assert http.get("/v1/branches").status_code == 401


def test_a_rule_that_is_deleted_ends_what_it_opened_at_once_also_streams_and_keys(
    place: Trusting,
) -> None:
    place.trust("ci", "exchange", MAIN, ["data"])
    place.trust("other", "exchange", {"repository": ["acme/other"]}, ["data"])
    ours, others = place.exchange(place.job()), place.exchange(place.job(repository="acme/other"))
    with bearer(place, ours) as http, bearer(place, others) as other:
        assert http.post("/v1/s3/keys", json={"name": "k", "read": ["main"]}).status_code == 201
        (rule, _) = trust.listing(place.context)
        assert rule["open"] == 1
        with http.stream("GET", "/v1/events") as stream:
            lines = stream.iter_raw()
            assert next(lines)
            trust.delete(place.context, "ci")
            for _ in lines:
                pass
        assert LOOK_AGAIN_S < 1
        assert http.get("/v1/branches").status_code == 401
        assert other.get("/v1/branches").status_code == 200
    (key,) = [one for one in _keys(place) if one.name == "k"]
    assert not tokens.is_live(place.services.store, key.id)
    with pytest.raises(NotFound):
        trust.delete(place.context, "ci")


def _keys(place: Trusting) -> list[Any]:
    with place.services.store.read() as tx:
        return [
            token
            for token in tx.access.tokens()
            if token.scopes and token.scopes[0].startswith("s3:")
        ]


def test_a_token_that_came_while_its_rule_was_deleted_is_not_live(place: Trusting) -> None:
    place.trust("ci", "exchange", MAIN, ["edit"])
    answer = place.exchange(place.job())
    with place.services.store.begin() as tx:
        (rule,) = tx.access.trust_rules()
        tx.access.drop_trust_rule(rule)
    with bearer(place, answer) as http:
        assert http.get("/v1/branches").status_code == 401
    assert not tokens.is_live(place.services.store, answer.json()["id"])


def test_a_new_rule_of_the_same_name_does_not_revive_anything(place: Trusting) -> None:
    place.trust("ci", "exchange", MAIN, ["edit"])
    answer = place.exchange(place.job())
    trust.delete(place.context, "ci")
    place.trust("ci", "exchange", MAIN, ["edit"])
    with bearer(place, answer) as http:
        assert http.get("/v1/branches").status_code == 401


def test_rules_are_made_listed_and_deleted_by_administrators_and_are_in_the_audit(
    place: Trusting,
) -> None:
    with Headgate(place.url, place.admin) as client:
        made = client.create_trust(
            "ci",
            "exchange",
            place.issuer.url,
            MAIN,
            ["edit"],
            audience=AUDIENCE,
            dataflows=["sales"],
            ttl_s=600,
        )
        assert client.trust() == [made]
        assert (made["claims"], made["scopes"], made["ttl_s"], made["by"]) == (
            MAIN,
            ["edit"],
            600,
            "ada",
        )
        assert made["within"]["dataflows"] == ["sales"]
        with pytest.raises(ApiError) as taken:
            client.create_trust("ci", "login", place.issuer.url, MAIN, ["edit"])
        assert (taken.value.status, taken.value.code) == (409, "name-taken")
        with pytest.raises(ApiError) as bad:
            client.create_trust(
                "open", "exchange", place.issuer.url, {"sub": ["*"]}, ["edit"], audience=AUDIENCE
            )
        assert (bad.value.status, bad.value.code) == (422, "bad-trust")
        client.delete_trust("ci")
        assert client.trust() == []
    ((who, what),) = place.audit("trust.create")
    assert (who, what["claims"], what["dataflows"]) == ("ada", MAIN, ["sales"])
    assert [who for who, _ in place.audit("trust.delete")] == ["ada"]


def test_tokens_of_jobs_are_forgotten_a_month_after_their_end(place: Trusting) -> None:
    place.trust("ci", "exchange", MAIN, ["edit"], ttl_s=60)
    place.exchange(place.job())
    with place.services.store.begin() as tx:
        (old,) = [one for one in tx.access.tokens() if one.parent]
        tx.access.put_token(replace(old, expires=tx.now() - trust.KEPT_S - 1))
    place.exchange(place.job())
    with place.services.store.read() as tx:
        (left,) = [one for one in tx.access.tokens() if one.parent]
        assert left.id != old.id
        assert len(tx.access.tokens()) == 2


# --- the command line -------------------------------------------------------------------------------


def test_the_command_line_shows_the_token_of_a_variable(place: Trusting, headgate: Command) -> None:
    place.trust("ci", "exchange", MAIN, ["view"])
    found = headgate("branch", "list", "--output", "json", HEADGATE_ID_TOKEN=place.job())
    assert (found.code, json.loads(found.out)) == (0, [])
    assert [who for who, _ in place.audit("token.exchange")] == ["acme/flows@refs/heads/main"]


def test_the_command_line_asks_the_runner_of_github(place: Trusting, headgate: Command) -> None:
    rule = trust.create(
        place.context, "ci", "exchange", place.issuer.url, MAIN, ["view"], audience=place.url
    )
    assert rule["audience"] == place.url, "what the command asks for by default"
    place.issuer.person = JOB
    github = {
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{place.issuer.url}/actions?api-version=2",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "of the runner",
    }
    found = headgate("branch", "list", "--output", "json", **github)
    assert (found.code, json.loads(found.out)) == (0, [])
    refused = headgate("branch", "list", **{**github, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "wrong"})
    assert refused.code == 1
    assert "the runner gives no identity token" in refused.err


def test_a_token_of_ours_goes_first_and_without_a_rule_the_command_says_what_is_missing(
    place: Trusting, headgate: Command, tmp_path: Path
) -> None:
    assert headgate("branch", "list", HEADGATE_TOKEN=place.admin, HEADGATE_ID_TOKEN="x").code == 0
    identity = place.job()
    refused = headgate("branch", "list", HEADGATE_ID_TOKEN=identity)
    assert refused.code == 1
    assert "no rule trusts identity tokens of" in refused.err
    assert f"audience {place.url}" in refused.err
    assert identity not in refused.err
    home = Home(tmp_path / "home")
    home.prepare()
    home.keep_token(place.admin)
    assert headgate("branch", "list", HEADGATE_ID_TOKEN=identity).code == 0, "the home has a token"


def test_commands_about_rules(place: Trusting, headgate: Command) -> None:
    shared = {"HEADGATE_TOKEN": place.admin}
    pins = (
        "--claim",
        "repository=acme/flows",
        "--claim",
        "ref=refs/heads/main",
        "--claim",
        "ref=refs/tags/v*",
    )
    job = ("trust", "create", "ci", "--issuer", place.issuer.url, "--role", "edit", *pins)
    assert headgate(*job, **shared).code == 64, "neither --audience nor --login"
    assert (
        headgate(
            *job, "--audience", AUDIENCE, "--expires", "2h", "--dataflow", "sales", **shared
        ).code
        == 0
    )
    people = (
        "--login",
        "--issuer",
        place.issuer.url,
        "--claim",
        "groups=platform",
        "--role",
        "admin",
    )
    assert headgate("trust", "create", "admins", *people, **shared).code == 0
    listed = headgate("trust", "list", "--output", "json", **shared)
    assert [(one["name"], one["use"], one["ttl_s"]) for one in json.loads(listed.out)] == [
        ("admins", "login", 8 * 3600),
        ("ci", "exchange", 7200),
    ]
    assert (
        "ref=refs/heads/main or refs/tags/v*"
        in headgate("trust", "list", COLUMNS="400", **shared).out
    )
    assert headgate("trust", "delete", "ci", **shared).code == 0
    assert [one["name"] for one in trust.listing(place.context)] == ["admins"]


def test_each_namespace_has_rules_of_its_own(place: Trusting) -> None:
    """Who administers one trusts nobody in another one's name."""
    namespaces.create(place.context, "team-a")
    theirs = replace(place.context, namespace="team-a")
    trust.create(theirs, "ci", "exchange", place.issuer.url, MAIN, ["admin"], audience=AUDIENCE)
    assert place.exchange(place.job()).status_code == 403
    with place.http() as http:
        body = {"token": place.job(), "namespace": "team-a"}
        answer = http.post("/v1/tokens/exchange", json=body)
        assert (
            http.post("/v1/tokens/exchange", json={**body, "namespace": "team-b"}).status_code
            == 403
        )
        assert (
            http.post("/v1/tokens/exchange", json={**body, "namespace": "../a"}).status_code == 422
        )
    with bearer(place, answer) as http:
        items = http.get("/v1/tokens").json()["items"]
        assert [one["name"] for one in items] == ["acme/flows@refs/heads/main"]
        assert http.get("/v1/namespaces").status_code == 403
