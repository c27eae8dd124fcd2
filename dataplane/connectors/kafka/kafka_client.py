"""Clients of a Kafka server, and its errors in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from dataplane.connectors.kafka.client_pool import ClientPool, config_key
from dataplane.contract.jobs import ConnectorSettings
from dataplane.contract.schemas import Json
from dataplane.secrets import remember, resolved
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

ANSWER_S = 20.0
OWN = "client."  # starts the names of settings that are options of the client
READING = {  # options of a consumer of no group
    "group.id": "headgate",  # never joined
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",  # where reading begins is known: elsewhere would be a gap
    "isolation.level": "read_committed",
}
REGISTRY = "registry."  # behind it: they are options of the client of the schema registry


def client(settings: ConnectorSettings, **options: Json) -> dict[str, Json]:
    """How a client finds the server, and logs in."""
    quiet = {"log_level": 0, "socket.connection.setup.timeout.ms": 5000}
    return {"bootstrap.servers": settings["servers"], **quiet, **_own(settings), **options}


def _own(settings: ConnectorSettings) -> dict[str, str]:
    """Options of the user's for this client: those for another server have a name before them."""
    own = (
        (name.removeprefix(OWN), text) for name, text in settings.items() if name.startswith(OWN)
    )
    return {name: resolved(text) for name, text in own if not name.startswith(REGISTRY)}


def spark_options(settings: ConnectorSettings) -> dict[str, str]:
    """The same for Spark, whose client is Java's."""
    own = _own(settings)
    options: dict[str, str] = {
        name: own[name] for name in ("security.protocol", "sasl.mechanism") if name in own
    }
    if "sasl.username" in own:
        module = "plain.Plain" if own.get("sasl.mechanism") == "PLAIN" else "scram.Scram"
        user, password = (_quoted(own.get(name, "")) for name in ("sasl.username", "sasl.password"))
        login = f"org.apache.kafka.common.security.{module}LoginModule required username={user} password={password};"
        options["sasl.jaas.config"] = login
    if "ssl.ca.location" in own:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": own["ssl.ca.location"]}
    return {
        "kafka.bootstrap.servers": settings["servers"],
        **{f"kafka.{name}": text for name, text in options.items()},
    }


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    if escaped != text:
        remember(escaped)
    return f'"{escaped}"'


@contextmanager
def in_words(servers: str) -> Iterator[None]:
    """Errors of the client as TaskFailure."""
    try:
        from confluent_kafka import KafkaException
    except ImportError as e:
        raise TaskFailure(
            "kafka-missing", "a client of Kafka is needed: pip install 'headgate[kafka]'"
        ) from e
    try:
        yield
    except KafkaException as e:
        raise _failure(e.args[0], servers) from e


def _failure(error: Any, servers: str) -> TaskFailure:
    from confluent_kafka import KafkaError

    match error.code():
        case KafkaError._FENCED | KafkaError.PRODUCER_FENCED | KafkaError.INVALID_PRODUCER_EPOCH:
            return TaskFailure(
                "target-busy", "a later writer of this topic has taken over", "infrastructure"
            )
        case KafkaError.MSG_SIZE_TOO_LARGE:
            return TaskFailure(
                "message-too-large", "a row is larger than the server lets a message be"
            )
        case (
            KafkaError.TOPIC_AUTHORIZATION_FAILED
            | KafkaError.CLUSTER_AUTHORIZATION_FAILED
            | KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        ):
            return TaskFailure(
                "permission-denied", f"Kafka at {servers} does not allow it: {error.str()}"
            )
        case _:
            return TaskFailure(
                "unreachable",
                f"Kafka at {servers} does not answer: {error.str()}",
                "infrastructure",
            )


_consumers: ClientPool[Consumer] = ClientPool()


@contextmanager
def consumer(settings: ConnectorSettings, topic: str, **options: Json) -> Iterator[Consumer]:
    """A consumer for a topic, of no group, with these options and nothing assigned. It stays
    connected for the next use. It reads up to the last message of no open transaction, and raises
    rather than leave a gap. Its errors are messages, and KafkaException."""
    config = client(settings, **READING, **options)
    key = topic, config_key(config)
    with _consumers.use(key, partial(_consumer, config)) as pooled:
        yield pooled
        pooled.unassign()


def _consumer(config: dict[str, Json]) -> Consumer:
    from confluent_kafka import Consumer

    return Consumer(config)


def messages(
    settings: ConnectorSettings, topic: str, starts: Mapping[int, int]
) -> Iterator[Message]:
    """The messages of a topic's partitions from these offsets on, up to the last message of no open
    transaction."""
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    consumer = Consumer(client(settings, **READING))
    left = set(starts)
    try:
        consumer.assign([TopicPartition(topic, partition, at) for partition, at in starts.items()])
        while left:
            message = consumer.poll(ANSWER_S)
            if message is None:
                raise TaskFailure(
                    "unreachable", f"the topic {topic} cannot be read to its end", "infrastructure"
                )
            if (error := message.error()) is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
