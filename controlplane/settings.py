"""Settings from the environment and the command line, read once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from controlplane.core.trust_rules import is_issuer

DEFAULT_HOME = ".headgate"
LEASE_S, SHORTEST_LEASE_S = 15.0, 2  # for which a leader that is not heard of stays the leader
# After which a driver that does not call is given up; an idle one calls every 20
SILENT_S, SHORTEST_SILENT_S = 90.0, 30
BATCH_S = 60.0  # of work that a driver gets at once, by past attempts
DRIVER_IDLE_S = 300.0  # a local driver without work ends after this time: Spark takes some 1.5 GB
UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600}
CHOSEN_TOKEN = re.compile(r"hg_[A-Za-z0-9_-]{32,}")
SHORTEST_S3_SECRET = 32


class BadSetting(ValueError):
    """A setting has a value that cannot be meant."""


@dataclass(frozen=True, slots=True)
class SignOnSettings:
    """How people sign in: this service's client at their issuer (OpenID Connect)."""

    issuer: str
    client: str
    secret: str | None = None  # None: a public client, which PKCE alone protects
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    label: str = ""  # what people call the issuer; empty: its host


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """Where the command line gets the identity token of the CI job that it runs in: the token
    itself, or GitHub's address and password to ask for one
    (https://docs.github.com/actions/reference/security/oidc)."""

    text: str = ""
    address: str = ""
    password: str = ""
    audience: str = ""  # empty: the URL of the service
    namespace: str = "default"  # whose rules of trust are used


@dataclass(frozen=True, slots=True)
class Settings:
    """Where things are. `url` and `token` name a running service, for the command line; the rest is
    for our own."""

    home: Path
    database_url: str
    lake: str
    pool: str = "local"
    pools: Path | None = None
    kubeconfig: Path | None = None
    secrets: Path | None = None
    notify: Path | None = None  # a file of channels for alerts
    # All that may be read; None: anything but places of our own
    sources: tuple[str, ...] | None = None
    listing_timeout_s: int | None = None  # None: as workers have it
    semantics: int = 0
    lease_s: float = LEASE_S
    silent_s: float = SILENT_S
    batch_s: float = BATCH_S
    driver_idle_s: float = DRIVER_IDLE_S
    queries_per_user: int = 1  # that run at a time
    driver_user: str | None = None
    admin_token: str | None = None
    s3_secret: str | None = None
    openlineage: str | None = None  # URL of the service that events of lineage are sent to
    openlineage_token: str | None = None
    sign_on: SignOnSettings | None = None
    job: JobIdentity | None = None
    hosts: frozenset[str] = frozenset()  # names that browsers reach the service by
    url: str | None = None
    token: str | None = None


def read(home: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings in force: `home` from the command line wins over HEADGATE_HOME. Empty variables
    count as absent."""
    environ = environ or os.environ
    variables = {
        k.removeprefix("HEADGATE_"): v
        for k, v in environ.items()
        if v and k.startswith("HEADGATE_")
    }
    place = Path(home or variables.get("HOME", DEFAULT_HOME)).expanduser().absolute()
    return Settings(
        home=place,
        database_url=variables.get("DATABASE_URL", _sqlite(place / "metadata.db")),
        lake=_lake(variables.get("LAKE", (place / "lake").as_uri())),
        pool=_one_of(
            variables.get("POOL", "local"), "HEADGATE_POOL", ("local", "kubernetes", "none")
        ),
        pools=Path(variables["POOLS"]) if "POOLS" in variables else None,
        kubeconfig=Path(variables["KUBECONFIG"]) if "KUBECONFIG" in variables else None,
        secrets=Path(variables["SECRETS"]) if "SECRETS" in variables else None,
        notify=_notify(variables, place),
        sources=_sources(variables["SOURCES"]) if "SOURCES" in variables else None,
        listing_timeout_s=_number(variables["LISTING_TIMEOUT"], "HEADGATE_LISTING_TIMEOUT")
        if "LISTING_TIMEOUT" in variables
        else None,
        semantics=_number(variables.get("SEMANTICS", "0"), "HEADGATE_SEMANTICS"),
        lease_s=_seconds(variables, "LEASE_S", LEASE_S, SHORTEST_LEASE_S),
        silent_s=_seconds(variables, "SILENT_S", SILENT_S, SHORTEST_SILENT_S),
        batch_s=_seconds(variables, "BATCH_S", BATCH_S, 1),
        driver_idle_s=_duration(variables, "DRIVER_IDLE", DRIVER_IDLE_S),
        queries_per_user=_at_least_one(
            variables.get("QUERIES_PER_USER", "1"), "HEADGATE_QUERIES_PER_USER"
        ),
        driver_user=variables.get("DRIVER_USER"),
        admin_token=_chosen(Path(variables["ADMIN_TOKEN_FILE"]))
        if "ADMIN_TOKEN_FILE" in variables
        else None,
        s3_secret=_s3_secret(Path(variables["S3_SECRET_FILE"]))
        if "S3_SECRET_FILE" in variables
        else None,
        openlineage=_openlineage(variables["OPENLINEAGE"].strip())
        if "OPENLINEAGE" in variables
        else None,
        openlineage_token=_secret_in(
            Path(variables["OPENLINEAGE_TOKEN_FILE"]), "HEADGATE_OPENLINEAGE_TOKEN_FILE"
        )
        if "OPENLINEAGE_TOKEN_FILE" in variables
        else None,
        sign_on=_sign_on(variables),
        job=_job(variables, environ),
        hosts=_hosts(variables.get("HOSTS", "")),
        url=_url(variables["URL"].strip()) if "URL" in variables else None,
        token=_token(variables["TOKEN"].strip()) if "TOKEN" in variables else None,
    )


def blueprint_base() -> str | None:
    """The folder of HEADGATE_BASE: where the service has what lies in the folder of the command.
    Raises BadSetting."""
    base = os.environ.get("HEADGATE_BASE", "").strip()
    if base and not base.startswith("/"):
        raise BadSetting(
            f"HEADGATE_BASE is {base!r}: it must be an absolute path, of a folder that the service has"
        )
    return base or None


def _notify(variables: Mapping[str, str], home: Path) -> Path | None:
    """The file that HEADGATE_NOTIFY names, which has to be there; else `notify.yaml` of the home,
    if it is there."""
    if "NOTIFY" in variables:
        return Path(variables["NOTIFY"])
    own = home / "notify.yaml"
    return own if own.is_file() else None


def _sources(text: str) -> tuple[str, ...]:
    """Workers and drivers read the variable themselves; here an invalid entry is reported before
    they start."""
    entries = tuple(entry for part in text.split(",") if (entry := part.strip()))
    for entry in entries:
        if not re.match(r"/|file:/|(s3|gs|abfss?|https?|sftp)://[^/]", entry):
            like = "absolute folders and prefixes such as /data, s3://bucket/prefix, separated by commas"
            raise BadSetting(f"HEADGATE_SOURCES has {entry!r}; it must be {like}")
    if not entries:
        raise BadSetting(
            "HEADGATE_SOURCES names nothing, so nothing could be read; unset it to allow all"
        )
    return entries


def _sign_on(variables: Mapping[str, str]) -> SignOnSettings | None:
    """None where no issuer is named. The issuer itself is looked at when the service starts."""
    if "OIDC_ISSUER" not in variables:
        return None
    if "OIDC_CLIENT_ID" not in variables:
        raise BadSetting(
            "HEADGATE_OIDC_ISSUER needs HEADGATE_OIDC_CLIENT_ID, the client that the issuer knows us by"
        )
    issuer = variables["OIDC_ISSUER"].strip()
    if not is_issuer(issuer):
        raise BadSetting(
            f"HEADGATE_OIDC_ISSUER is {issuer!r}; it must be like https://login.example.com"
        )
    scopes = tuple(
        dict.fromkeys(("openid", *variables.get("OIDC_SCOPES", "email profile").split()))
    )
    return SignOnSettings(
        issuer,
        variables["OIDC_CLIENT_ID"].strip(),
        secret=_secret_in(
            Path(variables["OIDC_CLIENT_SECRET_FILE"]), "HEADGATE_OIDC_CLIENT_SECRET_FILE"
        )
        if "OIDC_CLIENT_SECRET_FILE" in variables
        else None,
        scopes=scopes,
        label=variables.get("OIDC_LABEL", "").strip(),
    )


def _job(variables: Mapping[str, str], environ: Mapping[str, str]) -> JobIdentity | None:
    """None outside of CI, and where the job has not requested an identity."""
    identity = JobIdentity(
        variables.get("ID_TOKEN", "").strip(),
        environ.get("ACTIONS_ID_TOKEN_REQUEST_URL", ""),
        environ.get("ACTIONS_ID_TOKEN_REQUEST_TOKEN", ""),
        variables.get("ID_AUDIENCE", "").strip(),
        variables.get("NAMESPACE", "default").strip(),
    )
    return identity if identity.text or (identity.address and identity.password) else None


def _hosts(text: str) -> frozenset[str]:
    names = frozenset(name for part in text.split(",") if (name := part.strip().lower()))
    for name in names:
        if not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", name):
            like = "names without scheme and port such as headgate.example.com, separated by commas"
            raise BadSetting(f"HEADGATE_HOSTS has {name!r}; it must be {like}")
    return names


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return text
    except ValueError:
        pass
    raise BadSetting(f"HEADGATE_URL is {text!r}; it must be like https://headgate.example.com")


def _openlineage(text: str) -> str:
    """The URL of a service. The error omits it where it holds a password or a query: these may be
    secrets."""
    like = "https://host/api/v1/lineage"
    try:
        parts = urlsplit(text)
        has_secret = "@" in parts.netloc or bool(parts.query or parts.fragment)
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_secret, is_http = "@" in text or "?" in text, False
    if has_secret:
        raise BadSetting(
            f"HEADGATE_OPENLINEAGE must be like {like}: a token belongs in HEADGATE_OPENLINEAGE_TOKEN_FILE"
        )
    if not is_http:
        raise BadSetting(f"HEADGATE_OPENLINEAGE is {text!r}; it must be like {like}")
    return text


def _secret_in(path: Path, name: str) -> str:
    """The token that we show to others, from the file that the setting `name` names. Errors omit
    it."""
    try:
        text = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as e:
        raise BadSetting(f"{name} is {str(path)!r}, which cannot be read: {e}") from e
    if not text or not text.isprintable() or " " in text:
        raise BadSetting(f"{name}: {path} must hold one token, without blanks")
    return text


def _token(text: str) -> str:
    """A valid token. Errors omit it: it is a secret."""
    if not text.isascii() or not text.isprintable() or " " in text:
        raise BadSetting(
            "HEADGATE_TOKEN holds what no token has: it must be `hg_` and letters, digits, - or _"
        )
    return text


# Of sources; the latter of other namespaces than `default`
_SECRETS = ("HEADGATE_SECRET_", "HEADGATE_NAMESPACE__")


def secrets_in(environ: Mapping[str, str], settings: Settings) -> list[str]:
    """Values to redact everywhere: secrets of sources, our tokens, the password of the database."""
    secrets = [value for name, value in environ.items() if name.startswith(_SECRETS)]
    try:
        password = urlsplit(settings.database_url).password or ""
    except ValueError:  # opening it reports the fault
        password = ""
    return [
        *secrets,
        password,
        unquote(password),
        settings.admin_token or "",
        settings.token or "",
        settings.s3_secret or "",
        settings.openlineage_token or "",
        *_of_identities(settings),
    ]


def _of_identities(settings: Settings) -> list[str]:
    client, job = settings.sign_on, settings.job or JobIdentity()
    return [client.secret or "" if client else "", job.text, job.password]


def mounted(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables for the object store, from the folder that HEADGATE_LAKE_CREDENTIALS names: files
    are called like them.

    So does a mounted secret look. BadSetting if it cannot be read.
    """
    folder = environ.get("HEADGATE_LAKE_CREDENTIALS")
    if not folder:
        return {}
    try:
        files = [file for file in Path(folder).iterdir() if file.name.startswith(_OF_STORES)]
        return {file.name: file.read_text(encoding="utf-8").strip() for file in files}
    except (OSError, UnicodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "not UTF-8"
        raise BadSetting(
            f"HEADGATE_LAKE_CREDENTIALS is {folder!r}, which cannot be read: {reason}"
        ) from None


def _sqlite(path: Path) -> str:
    """A path is quoted in a URL, or what stands behind a question mark is taken for options of
    another file."""
    return f"sqlite:///{quote(str(path), safe=' +/')}"


_IN_STORES = r"[a-z][a-z0-9]*://[0-9A-Za-z._@-]+(/[0-9A-Za-z._=-]+)*/?"
_OF_STORES = ("AWS_", "AZURE_", "GOOGLE_")


def _lake(uri: str) -> str:
    """Readers of tables take names in an object store apart in ways of their own, so only plain
    ones are let in."""
    if "://" not in uri or uri.startswith("file:"):
        return uri
    in_hdfs = uri.startswith("hdfs:")
    form = r"hdfs://[0-9A-Za-z.-]+(:[0-9]+)?(/[0-9A-Za-z._=-]+)+/?" if in_hdfs else _IN_STORES
    if not re.fullmatch(form, uri):
        stores = "s3://bucket/prefix, gs://bucket/prefix or abfss://container@account.dfs.core.windows.net/prefix"
        like = "hdfs://namenode:8020/folder" if in_hdfs else stores
        raise BadSetting(
            f"HEADGATE_LAKE is {uri!r}; it must be like {like}, of letters, digits and ._=-"
        )
    return uri.rstrip("/")


def _chosen(path: Path) -> str:
    """The text of a token that an operator made up; too short a one could be guessed."""
    try:
        text = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as e:
        raise BadSetting(
            f"HEADGATE_ADMIN_TOKEN_FILE is {str(path)!r}, which cannot be read: {e}"
        ) from e
    if not CHOSEN_TOKEN.fullmatch(text):
        raise BadSetting(
            f"HEADGATE_ADMIN_TOKEN_FILE: {path} must hold `hg_` and 32 or more letters, digits, - or _"
        )
    return text


def _s3_secret(path: Path) -> str:
    """The text from which the secrets of S3 keys are made. Errors omit it."""
    try:
        text = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as e:
        raise BadSetting(
            f"HEADGATE_S3_SECRET_FILE is {str(path)!r}, which cannot be read: {e}"
        ) from e
    if len(text) < SHORTEST_S3_SECRET or not text.isprintable():
        raise BadSetting(
            f"HEADGATE_S3_SECRET_FILE: {path} must hold {SHORTEST_S3_SECRET} or more characters that nobody can guess, "
            "such as those that `openssl rand -hex 32` prints"
        )
    return text


def _one_of(value: str, name: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise BadSetting(f"{name} is {value!r}; it can be {' or '.join(allowed)}")
    return value


def _seconds(variables: Mapping[str, str], name: str, default: float, least: int) -> float:
    if name not in variables:
        return default
    seconds = _number(variables[name], f"HEADGATE_{name}")
    if seconds < least:
        raise BadSetting(
            f"HEADGATE_{name} is {variables[name]!r}; it must be {least} seconds or more"
        )
    return float(seconds)


def _duration(variables: Mapping[str, str], name: str, default: float) -> float:
    if name not in variables:
        return default
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smh]?)", variables[name].strip())
    if match is None:
        raise BadSetting(
            f"HEADGATE_{name} is {variables[name]!r}; it must be a time such as 90s, 5m or 2h"
        )
    return float(int(match[1]) * UNITS_S[match[2]])


def _at_least_one(value: str, name: str) -> int:
    number = _number(value, name)
    if not number:
        raise BadSetting(f"{name} is 0; it must be 1 or more")
    return number


def _number(value: str, name: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise BadSetting(f"{name} is {value!r}; it must be a small whole number")
    return int(value)
