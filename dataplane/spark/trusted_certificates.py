"""The certificates that this machine trusts, for a Java that has its own: behind a company's proxy
it needs both."""

from __future__ import annotations

import re
import ssl
import subprocess
from collections.abc import Iterable
from hashlib import sha1
from pathlib import Path

PEM = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
MAGIC, VERSION, CERTIFICATE = 0xFEEDFEED, 2, 2
PASSWORD = "changeit"  # that of every Java: nothing in it is secret


def trust_as_here(java_home: Path) -> None:
    """Let a Java trust, beside its own certificates, those of Python's OpenSSL (`SSL_CERT_FILE`,
    else the system's)."""
    command = [
        str(java_home / "bin" / "keytool"),
        "-list",
        "-rfc",
        "-cacerts",
        "-storepass",
        PASSWORD,
    ]
    own = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    certificates = dict.fromkeys(map(ssl.PEM_cert_to_DER_cert, PEM.findall(own)))
    certificates |= dict.fromkeys(ssl.create_default_context().get_ca_certs(binary_form=True))
    # This file wins over `cacerts`
    (java_home / "lib" / "security" / "jssecacerts").write_bytes(key_store(certificates))


def key_store(certificates: Iterable[bytes]) -> bytes:
    """In the format JKS, as `sun.security.provider.JavaKeyStore` of OpenJDK reads it."""
    entries = [
        _entry(f"ca-{number}", certificate) for number, certificate in enumerate(certificates)
    ]
    store = _int(MAGIC) + _int(VERSION) + _int(len(entries)) + b"".join(entries)
    return (
        store
        + sha1(
            PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + store, usedforsecurity=False
        ).digest()
    )


def _entry(alias: str, certificate: bytes) -> bytes:
    no_date = bytes(8)
    return (
        _int(CERTIFICATE)
        + _text(alias)
        + no_date
        + _text("X.509")
        + _int(len(certificate))
        + certificate
    )


def _int(value: int) -> bytes:
    return value.to_bytes(4, "big")


def _text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode()
