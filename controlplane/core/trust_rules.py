"""Which rule of trust fits the claims of an identity token, and what its holder is called. Pure.

Claims come from a token whose signature, issuer, audience and times were checked before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from controlplane.core import rights
from controlplane.core.errors import BadIdentity, BadTrust
from controlplane.core.model.json_values import JsonObject, JsonValue
from controlplane.core.model.trust import TrustRule, Use
from controlplane.core.rights import NO_ROLES, Named

NAME: Final = r"[a-z0-9][a-z0-9._-]{0,99}"
MOST_CLAIMS, MOST_PATTERNS = 20, 100
LONGEST_S: Final[Mapping[Use, float]] = {"login": 7 * 86_400.0, "exchange": 86_400.0}
USUAL_S: Final[Mapping[Use, float]] = {"login": 8 * 3600.0, "exchange": 3600.0}
LONGEST_NAME = 300
_ADDRESS = re.compile(
    r"(https://(?P<host>[A-Za-z0-9.-]+)|http://(?P<local>127\.0\.0\.1|localhost|\[::1\]))(:[0-9]{1,5})?(/[!-~]*)?"
)
_CLAIM = re.compile(r"[A-Za-z0-9_:./-]{1,200}")
_AUDITED = (
    *(
        "sub",
        "email",
        "repository",
        "ref",
        "event_name",
        "workflow_ref",
        "environment",
        "run_id",
        "actor",
    ),
    *("project_path", "ref_type", "pipeline_id", "job_id", "user_login"),
)


def check(rule: TrustRule, named: Named = NO_ROLES) -> None:
    """`named`: roles of the namespace. Raises BadTrust, BadScope."""
    if not re.fullmatch(NAME, rule.name, re.ASCII):
        raise BadTrust(
            f"{rule.name[:100]!r} is no name of a rule; write small letters, digits and ._- such as ci-main"
        )
    require_issuer(rule.issuer)
    if (rule.use == "exchange") != bool(rule.audience):
        raise BadTrust(
            "a rule for programs names the audience of their tokens, and one for people (login) names none"
        )
    _check_claims(rule)
    if not rule.roles or not set(rule.roles) <= {*rights.ROLES, *named}:
        raise BadTrust(
            f"a rule gives one role or more of {', '.join([*rights.ROLES, *sorted(named)])}"
        )
    rights.check(rule.roles, rule.within, named)
    longest = LONGEST_S[rule.use]
    if not 60 <= rule.ttl_s <= longest:
        raise BadTrust(
            f"what a rule for {rule.use} opens lives for a minute or more, and {longest / 3600:.0f} hours at most"
        )


def require_issuer(text: str) -> None:
    """Raises BadTrust unless the text is an address that an issuer can have (OpenID Connect
    Discovery 1.0, section 3)."""
    if not is_issuer(text):
        like = "write its URL as its tokens have it, such as https://login.example.com"
        raise BadTrust(f"{text[:200]!r} is no issuer; {like}")


def is_issuer(text: str) -> bool:
    return is_address(text) and "?" not in text and "#" not in text


def is_address(text: str) -> bool:
    """Whether it can be trusted to come from where it says: https, or this machine itself."""
    return len(text) <= 1000 and _ADDRESS.fullmatch(text) is not None


def host_of(issuer: str) -> str:
    match = _ADDRESS.fullmatch(issuer)
    return (match["host"] or match["local"]) if match else ""


def _check_claims(rule: TrustRule) -> None:
    if not 1 <= len(rule.claims) <= MOST_CLAIMS:
        raise BadTrust(
            f"a rule pins one claim or more, such as repository=acme/flows; {MOST_CLAIMS} at most"
        )
    for name, patterns in rule.claims.items():
        if not _CLAIM.fullmatch(name):
            raise BadTrust(
                f"{name[:100]!r} is no name of a claim; write one such as repository or groups"
            )
        is_good = all(0 < len(text) <= 500 and text.isprintable() for text in patterns)
        if not 1 <= len(patterns) <= MOST_PATTERNS or not is_good:
            raise BadTrust(
                f"claim {name}: write a value, or a pattern with * and ?, such as refs/heads/*"
            )
    pinned = [
        name for name, patterns in rule.claims.items() if all(text.strip("*?") for text in patterns)
    ]
    if rule.use == "exchange" and not pinned:
        raise BadTrust(
            "patterns of * alone would let in each holder of a token of this issuer:"
            " pin a claim to a value"
        )


def fits(rule: TrustRule, claims: JsonObject) -> bool:
    """Whether each claim that the rule names has a value that fits one of its patterns."""
    return all(_has(claims, name, patterns) for name, patterns in rule.claims.items())


def best(
    rules: Iterable[TrustRule], claims: JsonObject, named: Named = NO_ROLES
) -> TrustRule | None:
    """The best of the fitting rules: the one with most permissions, rather one that is not
    narrowed, then the first by name."""

    def order(rule: TrustRule) -> tuple[int, bool, str]:
        principal = rights.principal_of(rule.roles, rule.within, named)
        return -len(principal.permissions), bool(principal.within), rule.name

    return min((rule for rule in rules if fits(rule, claims)), key=order, default=None)


def _has(claims: JsonObject, name: str, patterns: tuple[str, ...]) -> bool:
    if name == "email" and claims.get("email_verified") is not True:
        return False  # a person may write any address into a profile
    return any(
        _is_like(text, pattern) for text in _texts(_claim(claims, name)) for pattern in patterns
    )


def _claim(claims: JsonObject, name: str) -> JsonValue:
    """By its name, or by names inside of each other, with dots: `realm_access.roles`."""
    if name in claims:
        return claims[name]
    claim: JsonValue = claims
    for part in name.split("."):
        if not isinstance(claim, dict):
            return None
        claim = claim.get(part)
    return claim


def _texts(value: JsonValue) -> Iterator[str]:
    """A value, or those of a list, as text."""
    match value:
        case bool():
            yield "true" if value else "false"
        case str() | int():
            yield str(value)
        case list():
            for member in value:
                if not isinstance(member, list):
                    yield from _texts(member)
        case _:
            return


def _is_like(text: str, pattern: str) -> bool:
    """`*`: any characters, also a slash. `?`: one. Brackets stand for themselves."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))


def who(use: Use, issuer: str, claims: JsonObject) -> str:
    """What the audit calls the holder. It has an @, so that it is none of our own actors. Raises
    BadIdentity.

    A person by the address that the issuer has verified, a job by its repository and ref; others by
    their subject.
    """
    name = f"{_text(claims, 'sub')}@{host_of(issuer)}"
    place = _text(claims, "repository") or _text(claims, "project_path")
    if use == "login" and claims.get("email_verified") is True and "@" in _text(claims, "email"):
        name = _text(claims, "email")
    elif use == "exchange" and place:
        name = f"{place}@{_text(claims, 'ref')}"
    if not name.isprintable() or len(name) > LONGEST_NAME or not _text(claims, "sub"):
        raise BadIdentity(
            "the identity token has no subject, or one that cannot be written into the audit"
        )
    return name


def audited_claims(rule: TrustRule, claims: JsonObject) -> JsonObject:
    """The claims that the audit keeps: those that the rule checked, and those that identify the
    person and the run."""
    names = dict.fromkeys((*_AUDITED, *rule.claims))
    by_name = {name: [text[:200] for text in _texts(_claim(claims, name))][:20] for name in names}
    return {
        name: texts[0] if len(texts) == 1 else [*texts] for name, texts in by_name.items() if texts
    }


def claims_in_words(claims: JsonObject) -> str:
    """The same for a refused token, in words."""
    pairs = ((name, _text(claims, name)[:200]) for name in _AUDITED)
    return ", ".join(f"{name} {text!r}" for name, text in pairs if text)


def _text(claims: JsonObject, name: str) -> str:
    claim = claims.get(name)
    return claim if isinstance(claim, str) else ""
