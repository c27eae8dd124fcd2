"""The topics of a Kafka server, through one client, and its errors in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from dataplane.connectors.kafka.client_pool import ClientPool, config_key
from dataplane.connectors.kafka.kafka_client import ANSWER_S, client, in_words
from dataplane.contract.schemas import Json
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

LOOK_AGAIN_S = 0.02
SERVERS_OWN = -1  # as many as the server gives a topic by itself


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """The offsets that one partition of a topic holds: from `first` up to `end`, which is not among
    them."""

    partition: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now. `id` distinguishes it from a deleted topic of the same name."""

    name: str
    id: str
    bounds: tuple[OffsetBounds, ...]


def look(settings: Mapping[str, Json], name: str) -> Topic:
    """The topic as it is now, up to the last message of no open transaction. TaskFailure if there
    is no such topic, or no answer."""
    key, make = config_key(client(settings)), partial(KafkaServer, settings)
    with in_words(settings["servers"]), _servers.use(key, make) as server:
        return server.topic(name)


def check_held(topic: Topic, ranges: Iterable[Mapping[str, Json]]) -> None:
    """TaskFailure where the topic does not hold all of these offsets of slices any more."""
    bounds = {b.partition: b for b in topic.bounds}
    for detail in ranges:
        held = bounds.get(detail["partition"])
        if detail["topic"] != topic.id or held is None or detail["end"] > held.end:
            raise TaskFailure(
                "topic-recreated", f"the topic {topic.name} was deleted and made again"
            )
        if detail["first"] < held.first:
            offsets = (
                f"{detail['first']} to {detail['end']} of partition {held.partition}; it begins at "
                f"{held.first}"
            )
            raise TaskFailure(
                "offsets-expired", f"the topic {topic.name} no longer holds offsets {offsets}"
            )


class KafkaServer:
    """A Kafka client. Call it within `in_words`, which words its errors; errors of topics are
    worded here.

    Its maker must close it: a client that ends within a collection of garbage may end in a thread
    of its own, which ends the process. So no frame that an error remembers names the client.
    """

    def __init__(self, settings: Mapping[str, Json]) -> None:
        self._settings, self._errors = settings, list[Any]()

    def close(self) -> None:
        self.__dict__.pop("_admin", None)

    def topic(self, name: str) -> Topic:
        if topics := self.topics([name]):
            return topics[name]
        raise TaskFailure(
            "topic-not-found", f"there is no topic {name} at {self._settings['servers']}"
        )

    def topics(self, names: Sequence[str]) -> dict[str, Topic]:
        """Those that there are, up to the last message of no open transaction: three requests,
        however many."""
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        try:
            self._admin.poll(0)
            self._errors.clear()  # of an earlier call
            if not (descriptions := self._described(names)):
                return {}
            places = [
                TopicPartition(name, p.id)
                for name, description in descriptions.items()
                for p in description.partitions
            ]
            firsts = self._admin.list_offsets(
                dict.fromkeys(places, OffsetSpec.earliest()), request_timeout=ANSWER_S
            )
            committed = {
                "isolation_level": IsolationLevel.READ_COMMITTED,
                "request_timeout": ANSWER_S,
            }
            ends = self._admin.list_offsets(dict.fromkeys(places, OffsetSpec.latest()), **committed)
            bounds = {
                p: OffsetBounds(p.partition, firsts[p].result().offset, ends[p].result().offset)
                for p in places
            }
        except KafkaException as e:
            raise self._refused([e.args[0], *self._errors], " and ".join(names)) from e
        return {
            name: Topic(name, str(description.topic_id), _of(name, bounds))
            for name, description in descriptions.items()
        }

    def policies(self, names: Iterable[str]) -> dict[str, str]:
        """The policy for old messages of each of these topics."""
        from confluent_kafka.admin import ConfigResource, ResourceType

        futures = self._admin.describe_configs(
            [ConfigResource(ResourceType.TOPIC, name) for name in names], request_timeout=ANSWER_S
        )
        return {
            place.name: str(future.result()["cleanup.policy"].value)
            for place, future in futures.items()
        }

    def create(self, name: str, partitions: int, *, only_try: bool = False) -> None:
        from confluent_kafka.admin import NewTopic

        new = NewTopic(name, partitions, SERVERS_OWN, config={"cleanup.policy": "compact"})
        self._admin.create_topics([new], validate_only=only_try, request_timeout=ANSWER_S)[
            name
        ].result()

    @cached_property
    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        return AdminClient(client(self._settings, error_cb=self._errors.append))

    def _described(self, names: Sequence[str]) -> dict[str, Any]:
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        futures = self._admin.describe_topics(TopicCollection([*names]), request_timeout=ANSWER_S)
        self._await(futures.values())
        descriptions = {}
        for name, future in futures.items():
            try:
                descriptions[name] = future.result()
            except KafkaException as e:
                if e.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
        return descriptions

    def _await(self, futures: Iterable[Future[Any]]) -> None:
        """Answers, or a reason for which there will be none: else a client tries again until its
        time is over."""
        from confluent_kafka import KafkaError, KafkaException

        while wait(futures, LOOK_AGAIN_S).not_done:
            self._admin.poll(0)
            if final := [
                e for e in self._errors if e.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL)
            ]:
                raise KafkaException(final[0])

    def _refused(self, errors: Sequence[KafkaError], names: str) -> TaskFailure:
        """The first error is the answer; the others are why there was none, if there was none."""
        from confluent_kafka import KafkaError

        messages = {error.code(): error.str() for error in reversed(errors)}
        servers, first = self._settings["servers"], errors[0].str()
        if messages.keys() & {
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        }:
            return TaskFailure(
                "permission-denied", f"the topic {names} at {servers} may not be read: {first}"
            )
        if KafkaError._AUTHENTICATION in messages:
            return TaskFailure(
                "credentials-refused", f"Kafka at {servers} does not accept user or password"
            )
        if fault := messages.get(KafkaError._SSL, first if "ssl." in first else None):
            return TaskFailure(
                "tls-failed", f"no encrypted connection to Kafka at {servers}: {fault}"
            )
        why = messages.get(KafkaError._TRANSPORT, "")
        message = f"Kafka at {servers} does not answer: {first}{why and f' ({why})'}"
        return TaskFailure("unreachable", message, "infrastructure")


def _of(name: str, bounds: Mapping[Any, OffsetBounds]) -> tuple[OffsetBounds, ...]:
    mine = (offsets for place, offsets in bounds.items() if place.topic == name)
    return tuple(sorted(mine, key=lambda b: b.partition))


_servers = ClientPool[KafkaServer]()
