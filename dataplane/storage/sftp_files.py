"""Files of SFTP servers: connections to a server whose host key is known, and the bytes of a file.

No key of a host is taken on trust, and no credentials but those that the read component declares
are offered.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dataplane.contract.hosts import REFUSED, is_link_local
from dataplane.contract.jobs import ConnectorJob
from dataplane.secrets import resolved_settings
from dataplane.storage.file_process import MOST_BYTES, WALL_S
from dataplane.storage.refused_places import Places
from dataplane.storage.service_hosts import leads_to_link_local
from dataplane.storage.source_stores import Moved, path_of, root_of
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    import paramiko

PREFIX = "sftp."  # of settings
PORT = 22
TIMEOUT_S = 30.0
CHUNK = 1 << 18
REQUESTS = 64  # of one file that are under way


@dataclass(frozen=True, slots=True)
class SftpAccess:
    """As a read component declares it. `host_key` is the fingerprint of the server's key."""

    user: str = ""
    password: str = ""
    key: str = ""
    host_key: str = ""
    checksums: str = ""

    @staticmethod
    def of(job: ConnectorJob) -> SftpAccess:
        """TaskFailure for a secret without a value."""
        return SftpAccess(**resolved_settings(job, PREFIX))

    def __repr__(self) -> str:
        return f"SftpAccess({self.user!r}, {self.host_key!r})"


@contextmanager
def connected(job: ConnectorJob, uri: str, most_s: float = WALL_S) -> Iterator[paramiko.SFTPClient]:
    """A client of the server, for so many seconds. TaskFailure where it is not the one that is
    known, and for any error of the work with the client."""
    try:
        import paramiko
    except ModuleNotFoundError as e:
        message = "sftp:// needs: pip install 'headgate[sftp]'"
        raise TaskFailure("missing-package", message, "infrastructure") from e
    Places.of(os.environ).check_object(root_of(uri), path_of(uri))
    try:
        with _transport(uri, most_s) as transport:
            access = SftpAccess.of(job)
            _check_host(transport, uri, access)
            _log_in(transport, access)
            client = paramiko.SFTPClient.from_transport(transport)
            if client is None:
                raise paramiko.SSHException("no SFTP session")
            channel = client.get_channel()
            if channel is not None:
                channel.settimeout(TIMEOUT_S)
            yield client
    except paramiko.AuthenticationException as e:
        message = f"{uri}: the server refuses the user, or the password or key"
        raise TaskFailure("credentials-refused", message) from e
    except PermissionError as e:
        raise TaskFailure("permission-denied", f"{uri}: the server refuses to show it") from e
    except FileNotFoundError as e:
        raise TaskFailure("path-not-found", f"{uri}: the server has no such file") from e
    except (paramiko.SSHException, OSError, EOFError, UnicodeError) as e:
        message = f"{uri}: the server does not answer as it should: {type(e).__name__}: {e}"
        raise TaskFailure("unreachable", message, "infrastructure") from e


@contextmanager
def _transport(uri: str, most_s: float) -> Iterator[paramiko.Transport]:
    """A connection to a host that may be read, before anything is sent but names of methods."""
    import paramiko

    host, port = _address(uri)
    if leads_to_link_local(host):
        raise TaskFailure("place-refused", f"{uri}: {host} {REFUSED}: name the host of a service")
    with socket.create_connection((host, port), TIMEOUT_S) as connection:
        if is_link_local(str(connection.getpeername()[0])):
            raise TaskFailure("place-refused", f"{uri}: {host} {REFUSED}")
        transport = paramiko.Transport(connection)
        # A server may answer byte by byte, or with empty answers, for days
        timer = threading.Timer(most_s, transport.close)
        timer.daemon = True
        try:
            transport.banner_timeout = transport.auth_timeout = TIMEOUT_S
            transport.start_client(timeout=TIMEOUT_S)
            timer.start()
            yield transport
        finally:
            timer.cancel()
            transport.close()


def _address(uri: str) -> tuple[str, int]:
    try:
        parts = urlsplit(uri)
        return parts.hostname or "", parts.port or PORT
    except ValueError as e:
        raise TaskFailure("bad-url", f"{uri}: {e}") from e


def _check_host(transport: paramiko.Transport, uri: str, access: SftpAccess) -> None:
    """TaskFailure unless the host shows the key that the component declares."""
    shown = transport.get_remote_server_key()
    fingerprint = str(shown.fingerprint)
    if not hmac.compare_digest(fingerprint.encode(), access.host_key.encode()):
        message = f"{root_of(uri)} shows the host key {fingerprint} ({shown.get_name()}), not that of `host_key`"
        advice = "compare it with the server's own, then write it there"
        raise TaskFailure("host-key-refused", f"{message}: {advice}")


def _log_in(transport: paramiko.Transport, access: SftpAccess) -> None:
    if access.key:
        transport.auth_publickey(access.user, _private_key(access.key))
    else:
        transport.auth_password(access.user, access.password)


def _private_key(text: str) -> paramiko.PKey:
    import paramiko

    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        try:
            return kind.from_private_key(io.StringIO(text))
        except (paramiko.SSHException, ValueError):
            continue
    message = "the secret of `key` is no private key of SSH without a passphrase"
    raise TaskFailure("credentials-refused", message)


def version_by_time(status: paramiko.SFTPAttributes) -> str:
    return f"modified:{modified_ms(status)} {status.st_size or 0}"


def modified_ms(status: paramiko.SFTPAttributes) -> int:
    return (status.st_mtime or 0) * 1000


def sftp_chunks(job: ConnectorJob, uri: str, version: str) -> Iterator[bytes]:
    """The bytes of a file; with a version, of that one. Moved once they are others: behind the last
    chunk, where only a digest can say so."""
    path, digest = f"/{path_of(uri)}", hashlib.sha256()
    with connected(job, uri) as client:
        before = _status(client, path)
        if version.startswith("modified:") and version_by_time(before) != version:
            raise Moved(uri)
        size = before.st_size or 0
        if size > MOST_BYTES:
            message = f"{uri} takes more than {MOST_BYTES >> 30} GiB: split it"
            raise TaskFailure("file-too-large", message, file=uri)
        with client.open(path, "rb") as file:
            file.prefetch(size, REQUESTS)  # which has a list of all parts
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                yield chunk
        if version_by_time(_status(client, path)) != version_by_time(before):
            raise Moved(uri)
    if version.startswith("sha256:") and version != f"sha256:{digest.hexdigest()}":
        raise Moved(uri)


def _status(client: paramiko.SFTPClient, path: str) -> paramiko.SFTPAttributes:
    try:
        return client.stat(path)
    except FileNotFoundError:
        raise Moved(path) from None
