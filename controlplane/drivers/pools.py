"""What an operator says of pools on Kubernetes, read from JSON once: sizes, places, limits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Any, TypeVar

from controlplane.core.model.namespaces import DEFAULT
from controlplane.core.model.scaling import PoolLimits, PoolShare
from controlplane.core.model.tasks import SIZES, Size
from dataplane.contract.kinds import Process

QUANTITY = re.compile(r"([1-9][0-9]{0,6})(Mi|Gi)")
CPU = re.compile(r"([0-9]{1,6})m|([0-9]{1,3}(?:\.[0-9]{1,3})?)")
# Names of Spark's executor pods, which must not be longer than 63, begin with it
LONGEST_INSTANCE = 16
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

LEAST = {
    "minimum": 0,
    "maximum": 0,
    "tasks_each": 1,
    "deadline_s": 1,
    "grace_s": 0,
    "keep_s": 0,
    "port": 1024,
}
TEXTS = frozenset({"namespace", "image", "url", "instance", "service_account", "priority_class"})

T = TypeVar("T")
P = TypeVar("P", bound="QueriesPod")


class BadPools(ValueError):
    """The settings of pools say something that cannot be meant; the message says where."""


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Nodes that pods may run on, such as spot nodes."""

    selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, str], ...] = ()
    priority_class: str = ""


@dataclass(frozen=True, slots=True)
class Executors:
    """Pods in which a driver's Spark computes; without them it computes in the driver's own."""

    maximum: int = 2
    cpu: int = 2
    memory: str = "4Gi"
    place: NodePlace = field(default_factory=NodePlace)


@dataclass(frozen=True, slots=True)
class Pool:
    """Pods of one kind and size. `tasks_each`: waiting tasks for which one more is worth while."""

    kind: Process
    size: Size
    cpu: str
    memory: str
    limits: PoolLimits
    deadline_s: int = 86400
    grace_s: int = 120  # between asking to end and killing
    place: NodePlace = field(default_factory=NodePlace)
    executors: Executors | None = None

    @property
    def name(self) -> str:
        return self.kind if self.kind == "worker" else f"{self.kind}-{self.size}"

    @property
    def memory_mib(self) -> int:
        return mebibytes(self.memory)


@dataclass(frozen=True, slots=True)
class QueriesPod:
    """The one pod that answers queries by Spark. `env_secrets` are its own, instead of those of all
    pods."""

    cpu: str = "1"
    memory: str = "2Gi"
    idle_s: float = 600.0  # without a query it ends
    port: int = 7070
    place: NodePlace = field(default_factory=NodePlace)
    env_secrets: tuple[str, ...] | None = None

    @property
    def memory_mib(self) -> int:
        return mebibytes(self.memory)


@dataclass(frozen=True, slots=True)
class SessionsPod(QueriesPod):
    """Pods of Spark sessions, one for each. `port`: where one is given its order; Spark itself
    serves no other pod."""

    idle_s: float = 1_800.0  # without a call of its client it ends
    port: int = 7071
    maximum: int = 4


def _driver(size: Size, cpu: str, memory: str) -> Pool:
    return Pool("driver", size, cpu, memory, PoolLimits(0, 1, idle_s=300.0, tasks_each=64))


DEFAULTS = {
    "worker": Pool(
        "worker", "standard", "250m", "512Mi", PoolLimits(1, 1, idle_s=300.0, tasks_each=64)
    ),
    "small": _driver("small", "1", "2Gi"),
    "standard": _driver("standard", "2", "4Gi"),
    "large": _driver("large", "4", "16Gi"),
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """All that pods of one installation have in common. `secrets` are Secrets whose values users'
    code may name, `namespace_secrets` the same for other namespaces than `default`, `env_secrets`
    those whose values all pods have as variables, such as credentials of the lake."""

    namespace: str
    image: str
    url: str = ""  # of the control plane, for pods
    instance: str = "headgate"
    service_account: str = "headgate-driver"
    keep_s: int = 600  # how long a finished Job can be looked at
    secrets: tuple[str, ...] = ()
    env_secrets: tuple[str, ...] = ()
    # `secrets` of other namespaces
    namespace_secrets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)  # of Spark
    pools: Mapping[str, Pool] = field(default_factory=lambda: DEFAULTS)
    queries: QueriesPod | None = None  # None: queries by Spark are not answered
    sessions: SessionsPod | None = None  # None: no Spark sessions are opened

    def within(self, namespace: str) -> Cluster:
        """As pods of a namespace have it: `secrets` are those of `default`."""
        if namespace == DEFAULT:
            return self
        return replace(self, secrets=self.namespace_secrets.get(namespace, ()))

    def pool(self, kind: str, size: str) -> Pool:
        return self.pools["worker" if kind == "worker" else size]

    @property
    def shares(self) -> tuple[PoolShare, ...]:
        """Workers take every task of theirs: none needs much. A size without drivers may have some
        of earlier settings, which are to end."""
        drivers = (self.pools[size] for size in SIZES)
        mine = (PoolShare(p.kind, p.size, self.serves(p.size), p.limits) for p in drivers)
        return PoolShare("worker", "standard", SIZES, self.pools["worker"].limits), *mine

    def serves(self, size: Size) -> tuple[Size, ...]:
        """Its own tasks, and those of sizes without drivers: the next larger pool takes them, else
        the largest."""
        return tuple(s for s in SIZES if self._server(s) == size)

    def _server(self, size: Size) -> Size:
        there = [s for s in SIZES if self.pools[s].limits.maximum] or list(SIZES)
        return next((s for s in there if SIZES.index(s) >= SIZES.index(size)), there[-1])


def read(text: str) -> Cluster:
    """Raises BadPools."""
    try:
        document = json.loads(text)
    except ValueError as e:
        raise BadPools(f"this is no JSON: {e}") from e
    settings = _settings_of("", document, {f.name for f in fields(Cluster)} | {"places"})
    places = {
        name: _place(f"places.{name}", body)
        for name, body in _mapping("places", settings.pop("places", {})).items()
    }
    queries = (
        _beside("queries", QueriesPod, settings.pop("queries"), places)
        if "queries" in settings
        else None
    )
    sessions = (
        _beside("sessions", SessionsPod, settings.pop("sessions"), places)
        if "sessions" in settings
        else None
    )
    pools = _mapping("pools", settings.pop("pools", {}))
    for name in pools:
        _one_of("pools", name, tuple(DEFAULTS))
    made = {
        name: _pool(f"pools.{name}", default, pools.get(name, {}), places)
        for name, default in DEFAULTS.items()
    }
    for name in ("namespace", "image"):
        if not settings.get(name):
            raise BadPools(f"`{name}` is missing")
    lists = {name: _texts(name, settings.get(name, [])) for name in ("secrets", "env_secrets")}
    named = {
        "env": _named_texts("env", settings.get("env", {})),
        "conf": _conf(settings.get("conf", {})),
    }
    beside = _mapping("namespace_secrets", settings.get("namespace_secrets", {}))
    of_others = {
        name: _texts(f"namespace_secrets.{name}", secrets) for name, secrets in beside.items()
    }
    parts = {
        "pools": made,
        "namespace_secrets": of_others,
        "queries": queries,
        "sessions": sessions,
    }
    cluster = _built("", Cluster, settings | lists | named | parts)
    for name, value in (("namespace", cluster.namespace), ("instance", cluster.instance)):
        if not NAME.fullmatch(value):
            raise BadPools(f"`{name}` is {value!r}; it can be of a-z, 0-9 and -")
    if len(cluster.instance) > LONGEST_INSTANCE:
        raise BadPools(
            f"`instance` is {cluster.instance!r}; it can have {LONGEST_INSTANCE} characters"
        )
    return cluster


def cores(quantity: object) -> float:
    match = CPU.fullmatch(str(quantity))
    count = (int(match[1]) / 1000 if match[1] else float(match[2])) if match else 0.0
    if not count:
        raise BadPools(f"cpu is {quantity!r}; it must be like 2, 0.5 or 500m")
    return count


def mebibytes(quantity: str) -> int:
    match = QUANTITY.fullmatch(str(quantity))
    if match is None:
        raise BadPools(f"memory is {quantity!r}; it must be like 512Mi or 4Gi")
    return int(match[1]) * (1024 if match[2] == "Gi" else 1)


def _pool(where: str, default: Pool, body: Any, places: Mapping[str, NodePlace]) -> Pool:
    limits = {f.name for f in fields(PoolLimits)}
    settings = _settings_of(
        where, body, {"cpu", "memory", "deadline_s", "grace_s", "place", "executors"} | limits
    )
    bounds = {name: settings.pop(name) for name in limits & settings.keys()}
    if "place" in settings:
        settings["place"] = places[_one_of(f"{where}.place", settings["place"], tuple(places))]
    if "executors" in settings:
        settings["executors"] = _executors(f"{where}.executors", settings["executors"], places)
    made = _built(where, lambda **values: replace(default, **values), settings)
    pool = replace(
        made, limits=_built(where, lambda **values: replace(default.limits, **values), bounds)
    )
    mebibytes(pool.memory)
    cores(pool.cpu)
    pool = replace(pool, cpu=str(pool.cpu))
    if not 0 <= pool.limits.minimum <= pool.limits.maximum:
        raise BadPools(
            f"`{where}`: minimum {pool.limits.minimum} and maximum {pool.limits.maximum} do not fit"
        )
    return pool


def _executors(where: str, body: Any, places: Mapping[str, NodePlace]) -> Executors:
    settings = _settings_of(where, body, {f.name for f in fields(Executors)})
    if "place" in settings:
        settings["place"] = places[_one_of(f"{where}.place", settings["place"], tuple(places))]
    made = _built(where, Executors, settings)
    mebibytes(made.memory)
    _whole_number(f"{where}.maximum", made.maximum, 1)
    if not cores(made.cpu).is_integer():
        raise BadPools(
            f"`{where}.cpu` is {made.cpu!r}; it must be whole: an executor has so many tasks at a time"
        )
    return replace(made, cpu=int(cores(made.cpu)))


def _beside(where: str, kind: type[P], body: Any, places: Mapping[str, NodePlace]) -> P:
    """Pods that are neither drivers nor workers."""
    settings = _settings_of(where, body, {f.name for f in fields(kind)})
    if "place" in settings:
        settings["place"] = places[_one_of(f"{where}.place", settings["place"], tuple(places))]
    if "env_secrets" in settings:
        settings["env_secrets"] = _texts(f"{where}.env_secrets", settings["env_secrets"])
    made = _built(where, kind, settings)
    mebibytes(made.memory)
    cores(made.cpu)
    return replace(made, cpu=str(made.cpu))


def _place(where: str, body: Any) -> NodePlace:
    settings = _settings_of(where, body, {f.name for f in fields(NodePlace)})
    selector = _named_texts(f"{where}.selector", settings.get("selector", {}))
    tolerations = settings.get("tolerations", [])
    if not isinstance(tolerations, list) or not all(
        isinstance(toleration, dict) for toleration in tolerations
    ):
        raise BadPools(f"`{where}.tolerations` is {tolerations!r}; it must be a list of objects")
    return _built(
        where, NodePlace, settings | {"selector": selector, "tolerations": tuple(tolerations)}
    )


def _texts(where: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise BadPools(f"`{where}` is {value!r}; it must be a list of names")
    return tuple(value)


def _named_texts(where: str, value: Any) -> dict[str, str]:
    return {name: _text(f"{where}.{name}", text) for name, text in _mapping(where, value).items()}


def _conf(value: Any) -> dict[str, str]:
    """Spark's values may have their own types there."""
    settings = _mapping("conf", value)
    plain = {
        name: json.dumps(setting)
        for name, setting in settings.items()
        if isinstance(setting, int | float)
    }
    return _named_texts("conf", settings | plain)


def _mapping(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadPools(f"`{where or 'the whole'}` must be an object")
    return dict(value)


def _settings_of(where: str, value: Any, allowed: set[str]) -> dict[str, Any]:
    settings = _mapping(where, value)
    for name in settings:
        _one_of(where or "the whole", name, tuple(sorted(allowed)))
    return settings


def _one_of(where: str, value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise BadPools(f"`{where}` knows {', '.join(allowed) or 'nothing'}; not {value!r}")
    return str(value)


def _built(where: str, make: Callable[..., T], values: Mapping[str, Any]) -> T:
    """Numbers and texts where they belong, by their names: JSON may have anything anywhere."""
    return make(
        **{
            name: _meant(f"{where}.{name}" if where else name, name, value)
            for name, value in values.items()
        }
    )


def _meant(where: str, name: str, value: Any) -> Any:
    if name in LEAST:
        return _whole_number(where, value, LEAST[name])
    if name in TEXTS:
        return _text(where, value)
    if name == "idle_s" and not (_is_number(value) and 0 <= value < inf):
        raise BadPools(f"`{where}` is {value!r}; it must be a number from 0 on")
    return value


def _whole_number(where: str, value: Any, least: int) -> int:
    if not (_is_number(value) and least <= value < inf and value == int(value)):
        raise BadPools(f"`{where}` is {value!r}; it must be a whole number from {least} on")
    return int(value)


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadPools(f"`{where}` is {value!r}; it must be a text")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
