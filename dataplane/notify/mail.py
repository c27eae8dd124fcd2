"""Messages by e-mail, over SMTP. A password is sent over TLS only."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from urllib.parse import urlsplit

from dataplane.contract.jobs import AlertMessage
from dataplane.notify import message_lines
from dataplane.notify.web import check_host
from dataplane.task_failures import TaskFailure

ANSWER_S = 20.0
PORTS = {"smtp": 25, "smtps": 465}


@dataclass(frozen=True, slots=True)
class MailServer:
    """`url`: smtp://host:port, with STARTTLS where the server offers it, or smtps://host:port."""

    url: str
    user: str = ""
    password: str = ""


def send(
    server: MailServer, *, sender: str, receivers: Sequence[str], message: AlertMessage
) -> None:
    """TaskFailure unless the server takes it for all receivers."""
    mail = _mail(sender, receivers, message)
    try:
        with _opened(server) as client:
            refused = client.send_message(mail)
    except (smtplib.SMTPException, OSError) as e:
        raise TaskFailure(
            "notify-refused", f"the mail server {server.url}: {type(e).__name__}: {e}"
        ) from e
    if refused:
        raise TaskFailure(
            "notify-refused", f"the mail server {server.url} refused {', '.join(sorted(refused))}"
        )


def _mail(sender: str, receivers: Sequence[str], message: AlertMessage) -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = (
        sender,
        ", ".join(receivers),
        f"[Headgate] {message['summary']}",
    )
    mail["Message-ID"] = f"<{message['id']}@headgate>"
    mail.set_content("\n".join(message_lines.lines(message)) + "\n")
    return mail


@contextmanager
def _opened(server: MailServer) -> Iterator[smtplib.SMTP]:
    place = urlsplit(server.url)
    host, port = place.hostname or "", place.port or PORTS[place.scheme]
    check_host(host)
    context = ssl.create_default_context()
    if place.scheme == "smtps":
        client: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=ANSWER_S, context=context)
    else:
        client = smtplib.SMTP(host, port, timeout=ANSWER_S)
    with client:
        is_safe = place.scheme == "smtps" or _starts_tls(client, context)
        if server.user:
            if not is_safe:
                raise TaskFailure(
                    "notify-refused", f"{server.url} offers no TLS: no password is sent to it"
                )
            client.login(server.user, server.password)
        yield client


def _starts_tls(client: smtplib.SMTP, context: ssl.SSLContext) -> bool:
    client.ehlo()
    if not client.has_extn("starttls"):
        return False
    client.starttls(context=context)
    return True
