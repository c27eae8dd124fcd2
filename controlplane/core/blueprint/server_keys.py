"""Keys of `connector: files` for archives, and for files of web servers and SFTP servers."""

from __future__ import annotations

import re

from controlplane.core.blueprint.common_keys import NO_OPTIONS
from controlplane.core.blueprint.model import Settings
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.text_forms import LONGEST_PATH, glob, matching
from controlplane.core.blueprint.value_kinds import Fault, Options, Reading, Text, secret_fault

NOTHING: Settings = ()
MOST_HEADERS = 20
# What the client says by itself
_OWN_HEADERS = re.compile(
    r"host|connection|content-.*|transfer-encoding|te|upgrade|range|if-.*|accept-encoding|expect",
    re.IGNORECASE,
)


def _members(text: str) -> Fault | None:
    if not text or len(text) > LONGEST_PATH or text.startswith("/"):
        return Fault("invalid-value", "no glob of members", "for example *.csv, or **/*.csv")
    return glob(text)


def _header(name: str) -> Fault | None:
    if re.fullmatch(r"[A-Za-z0-9-]{1,100}", name) and not _OWN_HEADERS.fullmatch(name):
        return None
    return Fault("invalid-value", f"{name[:100]!r} is no header that can be given")


MEMBERS: Key[str | None] = Key(
    "members",
    Text((_members,)),
    None,
    "The paths are archives (zip, tar); the files are their members that this glob finds.",
    example="**/*.csv",
)
HEADERS = Key(
    "headers",
    Options(may_refer=True, checks=(_header,)),
    NO_OPTIONS,
    "Headers of requests to https://, each as secret://name/key.",
    example={"Authorization": "secret://shop/authorization"},
)
USER = Key("user", Text(), "", "The user of the server.", is_required=True, example="app")
PASSWORD: Key[str | None] = Key(
    "password", Text((secret_fault,)), None, "secret://name/key", example="secret://shop/password"
)
PRIVATE_KEY: Key[str | None] = Key(
    "key",
    Text((secret_fault,)),
    None,
    "secret://name/key with a private key of SSH.",
    example="secret://shop/key",
)
HOST_KEY = Key(
    "host_key",
    Text((matching(r"SHA256:[A-Za-z0-9+/]{43}", "a fingerprint such as SHA256:47DE..."),)),
    "",
    "Fingerprint of the server's key, as `ssh-keygen -l` prints it.",
    is_required=True,
    example="SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU",
)
CHECKSUMS: Key[str | None] = Key(
    "checksums",
    Text((matching(r"[A-Za-z0-9._-]{1,200}", "the name of a file"),)),
    None,
    "A file of SHA-256 sums in the fixed folder of the path.",
    example="SHA256SUMS",
)
_SFTP_KEYS = (USER, PASSWORD, PRIVATE_KEY, HOST_KEY, CHECKSUMS)


def _sftp(fields: Fields, reading: Reading) -> Settings:
    ways = fields.present((PASSWORD, PRIVATE_KEY))
    if not ways:
        message, hint = "the key 'password' or 'key' is missing", "write one: secret://name/key"
        reading.problems.add(fields.place, "missing-key", message, hint)
    for extra in ways[1:]:
        message = "'key' cannot stand beside 'password'"
        reading.problems.add(extra.place, "conflicting-keys", message, "remove one of them")
    return tuple((f"sftp.{key.name}", fields[key]) for key in _SFTP_KEYS if fields[key])


SFTP: Key[Settings] = Key(
    "sftp",
    Nested(Section(_SFTP_KEYS), _sftp),
    NOTHING,
    "The user of an sftp:// path, and the server's key.",
    example={
        "user": "app",
        "password": "secret://shop/password",
        "host_key": "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU",
    },
)


def server_settings(fields: Fields, path: str, reading: Reading) -> Settings:
    """What these keys of a read come to; nothing where none is given."""
    is_http, is_sftp = path.startswith(("http://", "https://")), path.startswith("sftp://")
    for misplaced in fields.present((HEADERS,)) if not is_http else ():
        message = "'headers' belongs to paths of the form https://host/..."
        reading.problems.add(misplaced.place, "conflicting-keys", message, "remove it")
    for misplaced in fields.present((SFTP,)) if not is_sftp else ():
        message = "'sftp' belongs to paths of the form sftp://host/..."
        reading.problems.add(misplaced.place, "conflicting-keys", message, "remove it")
    if is_sftp and SFTP.name not in fields.nodes:
        message, hint = "the key 'sftp' is missing", "sftp: {user: ..., password: secret://...}"
        reading.problems.add(fields.place, "missing-key", message, hint)
    _report_headers(fields, reading)
    members = (("members", fields[MEMBERS]),) if fields[MEMBERS] is not None else ()
    headers = tuple((f"http.{name}", text) for name, text in fields[HEADERS])
    return (*members, *headers, *fields[SFTP])


def _report_headers(fields: Fields, reading: Reading) -> None:
    keys = fields.present((HEADERS,))
    if len(fields[HEADERS]) > MOST_HEADERS:
        message = f"there are more than {MOST_HEADERS} headers"
        reading.problems.add(keys[0].place, "invalid-value", message, "remove some")
    if any(secret_fault(text) for _, text in fields[HEADERS]):
        message = "a header is not a reference to a secret"
        hint = "write secret://name/key; the value stays outside the blueprint"
        reading.problems.add(keys[0].place, "literal-secret", message, hint)
