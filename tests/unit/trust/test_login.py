"""People sign in at an issuer: there and back by HTTP, and everything that must not open a
session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from controlplane import logs
from controlplane.core.rights import TokenScope
from controlplane.issuers.oidc_sign_on import OidcSignOn
from controlplane.operations.desired import tokens, trust
from controlplane.ui import gate, sign_on
from tests.unit.api.world import serving
from tests.unit.trust.world import Trusting

ADA = {"sub": "u1", "email": "ada@acme.com", "email_verified": True, "groups": ["all", "platform"]}
AT_ISSUER = httpx2.Client(trust_env=False)
ADMINS: dict[str, list[str]] = {"groups": ["platform"]}


@pytest.fixture
def browser(place: Trusting) -> Iterator[httpx2.Client]:
    """Keeps cookies, and follows nothing by itself."""
    place.issuer.person = ADA
    with place.http() as http:
        yield http


def away(http: httpx2.Client, onward: str = "/flows") -> dict[str, str]:
    """Begins, and is told where to go: what the issuer is asked."""
    answer = http.get("/login/start", params={"next": onward})
    assert answer.status_code == 303
    return {
        name: values[0]
        for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()
    }


def back(http: httpx2.Client, onward: str = "/flows") -> str:
    """Where the issuer sends the browser, once the person has signed in there."""
    answer = http.get("/login/start", params={"next": onward})
    return arrived(answer.headers["location"])


def arrived(address: str) -> str:
    """The same, for an address of the issuer."""
    return str(AT_ISSUER.get(address).headers["location"])


def is_in(http: httpx2.Client) -> bool:
    return http.get("/v1/branches").status_code == 200


def test_a_person_with_a_role_signs_in_goes_on_and_signs_out(
    place: Trusting, browser: httpx2.Client
) -> None:
    place.trust("admins", "login", ADMINS, ["admin"])
    page = browser.get("/login", params={"next": "/settings/tokens"}).text
    assert "Sign in with Acme ID" in page
    assert "/login/start?next=%2Fsettings%2Ftokens" in page
    assert not is_in(browser)
    answer = browser.get(back(browser, "/settings/tokens"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/settings/tokens")
    assert browser.cookies.get(sign_on.COOKIE) is None
    assert is_in(browser)
    assert browser.get("/settings/tokens").status_code == 200
    (who, what), *_ = place.audit("session.login")
    assert (who, what["rule"], what["roles"]) == ("ada@acme.com", "admins", ["admin"])
    assert what["claims"] == {"sub": "u1", "email": "ada@acme.com", "groups": ["all", "platform"]}
    (entry,) = [one for one in tokens.listing(place.context) if one["name"] == "ada@acme.com"]
    assert entry["expires"] == pytest.approx(entry["at"] + 8 * 3600)
    proof = gate.proof_of(browser.cookies[gate.COOKIE])
    left = browser.post("/logout", data={"csrf": proof}, headers={"Origin": place.url})
    assert (left.status_code, is_in(browser)) == (303, False)
    (entry,) = [one for one in tokens.listing(place.context) if one["name"] == "ada@acme.com"]
    assert entry["revoked"], "what was made with it ends, too"


def test_what_a_person_does_is_in_the_audit_under_their_name(
    place: Trusting, browser: httpx2.Client
) -> None:
    place.trust("admins", "login", ADMINS, ["admin"])
    browser.get(back(browser))
    headers = {"Origin": place.url, "X-CSRF": gate.proof_of(browser.cookies[gate.COOKIE])}
    assert browser.post("/v1/tokens", json={"name": "made"}, headers=headers).status_code == 201
    assert next(who for who, _ in place.audit("token.create")) == "ada@acme.com"


def test_who_has_no_role_is_told_so_plainly(place: Trusting, browser: httpx2.Client) -> None:
    place.trust("admins", "login", {"groups": ["owners"]}, ["admin"])
    place.trust("jobs", "exchange", ADMINS, ["admin"])
    answer = browser.get(back(browser))
    assert answer.status_code == 403
    assert "ada@acme.com is known to" in answer.text
    assert "no rule gives a role here" in answer.text
    assert not is_in(browser)


def test_a_role_that_is_narrowed_sees_pages_of_its_names(
    place: Trusting, browser: httpx2.Client
) -> None:
    trust.create(
        place.context,
        "narrow",
        "login",
        place.issuer.url,
        ADMINS,
        ["data"],
        within=TokenScope(dataflows=("sales",)),
    )
    assert browser.get(back(browser)).status_code == 303
    assert is_in(browser)
    assert browser.get("/flows/other").status_code == 404
    assert trust.listing(place.context)[0]["open"] == 1


def test_a_session_ends_with_its_rule_and_with_its_token(
    place: Trusting, browser: httpx2.Client
) -> None:
    for end in (
        lambda: trust.delete(place.context, "admins"),
        lambda: tokens.revoke(place.context, ADA["email"]),  # type: ignore[arg-type]
    ):
        place.trust("admins", "login", ADMINS, ["admin"])
        browser.get(back(browser))
        with place.http() as other:
            other.get(back(other))
            assert is_in(other)
            end()
            assert not is_in(other)
        assert not is_in(browser)


def test_the_issuer_gets_what_protects_the_code(place: Trusting, browser: httpx2.Client) -> None:
    one, other = away(browser), away(browser)
    assert one["redirect_uri"] == f"{place.url}/login/callback"
    assert one["scope"].split() == ["openid", "email", "profile"]
    for name in ("state", "nonce", "code_challenge"):
        assert len(one[name]) == 43
        assert one[name] != other[name]
    assert len({one["state"], one["nonce"], one["code_challenge"]}) == 3


def test_a_host_name_of_ours_means_https(place: Trusting) -> None:
    known = replace(place.services, hosts=frozenset({"headgate.example.com"}))
    with serving(known) as url, httpx2.Client(base_url=url, trust_env=False) as http:
        ours = http.get("/login/start", headers={"Host": "headgate.example.com"})
        asked = parse_qs(urlsplit(ours.headers["location"]).query)
        assert asked["redirect_uri"] == ["https://headgate.example.com/login/callback"]
        assert "__Host-hg-signing-in=" in ours.headers["set-cookie"]
        assert "; Secure" in ours.headers["set-cookie"]
        foreign = http.get("/login/start", headers={"Host": "evil.example.com"})
        assert foreign.status_code == 403


@pytest.mark.hostile
@pytest.mark.parametrize(
    "onward",
    [
        "https://evil.example.com",
        "//evil.example.com",
        "/\\evil.example.com",
        "javascript:alert(1)",
        "\t//evil",
    ],
)
def test_nobody_is_sent_to_a_foreign_host(
    onward: str, place: Trusting, browser: httpx2.Client
) -> None:
    place.trust("admins", "login", ADMINS, ["admin"])
    assert browser.get(back(browser, onward)).headers["location"] == "/"
    kept = browser.get("/login/start").headers["set-cookie"].partition("=")[2].partition(".")[0]
    address = arrived(browser.get("/login/start").headers["location"])
    browser.cookies.clear()
    browser.cookies.set(sign_on.COOKIE, f"{kept}.https%3A%2F%2Fevil.example.com")
    assert "location" not in browser.get(address).headers, "the text belongs to another try"


@pytest.mark.hostile
def test_an_answer_opens_one_session_in_the_browser_that_asked(
    place: Trusting, browser: httpx2.Client
) -> None:
    place.trust("admins", "login", ADMINS, ["admin"])
    address = back(browser)
    with place.http() as other:
        assert other.get(address).status_code == 400
        away(other)
        assert other.get(address).status_code == 400, "a state of another browser"
        assert not is_in(other)
    kept = browser.cookies[sign_on.COOKIE]
    query = parse_qs(urlsplit(address).query)
    for wrong in (
        {},
        {"state": [""]},
        {"state": ["x"]},
        {"state": query["state"], "iss": ["https://evil.example.com"]},
    ):
        asked = urlencode({**query, "state": [], **wrong}, doseq=True)
        browser.cookies.set(sign_on.COOKIE, kept)
        assert browser.get(f"/login/callback?{asked}").status_code == 400
        browser.cookies.clear()
    browser.cookies.set(sign_on.COOKIE, kept)
    assert browser.get(address).status_code == 303
    browser.cookies.clear()
    browser.cookies.set(sign_on.COOKIE, kept)
    assert browser.get(address).status_code == 401, "the issuer takes a code once"
    place.issuer.codes[query["code"][0]] = {**away(browser), "code_challenge": ""}
    assert not is_in(browser)


@pytest.mark.hostile
def test_a_state_that_was_used_opens_nothing_even_if_the_issuer_takes_its_code_again(
    place: Trusting, browser: httpx2.Client
) -> None:
    place.trust("admins", "login", ADMINS, ["admin"])
    address = back(browser)
    kept, code = browser.cookies[sign_on.COOKIE], parse_qs(urlsplit(address).query)["code"][0]
    asked = place.issuer.codes[code]
    assert browser.get(address).status_code == 303
    place.issuer.codes[code] = asked
    browser.cookies.clear()
    browser.cookies.set(sign_on.COOKIE, kept)
    assert browser.get(address).status_code == 400
    assert not is_in(browser)


@pytest.mark.hostile
@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another-client"},
        {"aud": ["headgate", "another-client"]},
        {"aud": ["headgate", "another-client"], "azp": "another-client"},
        {"azp": "another-client"},
        {"iss": "https://evil.example.com"},
        {"exp": 1},
        {"sub": None},
    ],
)
def test_an_identity_token_that_is_not_for_this_sign_in_opens_nothing(
    claims: dict[str, Any], place: Trusting, browser: httpx2.Client
) -> None:
    place.trust("admins", "login", ADMINS, ["admin"])
    place.issuer.broken["claims"] = claims
    assert browser.get(back(browser)).status_code == 401
    assert not is_in(browser)
    place.issuer.broken["claims"] = {"aud": ["headgate", "another-client"], "azp": "headgate"}
    assert browser.get(back(browser)).status_code == 303


@pytest.mark.hostile
def test_what_the_issuer_refuses_is_told_without_its_markup(
    place: Trusting, browser: httpx2.Client
) -> None:
    place.issuer.broken["refuse"] = "<script>alert(1)</script>"
    answer = browser.get(back(browser))
    assert answer.status_code == 403
    assert "&lt;script&gt;" in answer.text
    assert "<script>alert" not in answer.text


def test_without_its_issuer_the_service_lives_and_tokens_work(
    place: Trusting, browser: httpx2.Client
) -> None:
    gone = OidcSignOn(
        replace(place.client.settings, issuer="http://127.0.0.1:9"), place.client.issuers
    )
    with (
        serving(replace(place.services, sign_on=gone)) as url,
        httpx2.Client(base_url=url, trust_env=False) as http,
    ):
        answer = http.get("/login/start")
        assert answer.status_code == 503
        assert "127.0.0.1:9" in answer.text
        headers = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
        assert http.post("/login", data={"token": place.admin}, headers=headers).status_code == 303
        assert is_in(http)


def test_a_public_client_and_one_that_sends_its_secret_in_the_form(
    place: Trusting, browser: httpx2.Client
) -> None:
    place.trust("admins", "login", ADMINS, ["admin"])
    place.issuer.broken["metadata"] = {
        "token_endpoint_auth_methods_supported": ["client_secret_post"]
    }
    assert browser.get(back(browser)).status_code == 303
    place.issuer.secret = None
    public = OidcSignOn(replace(place.client.settings, secret=None), place.client.issuers)
    with (
        serving(replace(place.services, sign_on=public)) as url,
        httpx2.Client(base_url=url, trust_env=False) as http,
    ):
        assert http.get(back(http)).status_code == 303
    assert browser.get(back(browser)).status_code == 401, "this one still sends a secret"


def test_where_no_issuer_is_set_there_is_nothing_to_sign_in_with(place: Trusting) -> None:
    with (
        serving(replace(place.services, sign_on=None)) as url,
        httpx2.Client(base_url=url, trust_env=False) as http,
    ):
        assert "Sign in with" not in http.get("/login").text
        assert http.get("/login/start").status_code == 404
        assert http.get("/login/callback").status_code == 404


def test_no_secret_is_in_the_log(
    place: Trusting, browser: httpx2.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure()
    address = back(browser)
    kept, code = browser.cookies[sign_on.COOKIE], parse_qs(urlsplit(address).query)["code"][0]
    browser.get(address)
    place.exchange(place.job(ref="refs/heads/dev"))
    told = capsys.readouterr().err
    assert "sign-in refused" in told
    for secret in (kept.partition(".")[0], code, place.issuer.secret or "", "eyJ"):
        assert secret not in told
