"""A Java that came from the package index trusts what this machine trusts."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

from dataplane.spark.java import provide_java
from dataplane.spark.trusted_certificates import PASSWORD, PEM, key_store


def test_java_reads_the_store_and_finds_each_certificate(tmp_path: Path) -> None:
    given = ssl.create_default_context().get_ca_certs(binary_form=True)[:3]
    store = tmp_path / "store"
    store.write_bytes(key_store(given))
    keytool = Path(provide_java()).resolve().parent / "keytool"
    command = [str(keytool), "-list", "-rfc", "-keystore", str(store), "-storepass", PASSWORD]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert sorted(map(ssl.PEM_cert_to_DER_cert, PEM.findall(said))) == sorted(given)
