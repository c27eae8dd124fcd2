"""The calls of the REST API as values: method, path, names of the query, and the type of the
answer.

    STATUS: Route[StatusAnswer] = Route("GET", "/v1/branches/{branch}/status{?target,long}")

The API serves them (`Routes` of the API), and the client calls them: both take a path, the query
and the answer's type from here. Templates are those of RFC 6570: what follows `{?` are names of the
query. All else that a caller hands over is the body, whose model is beside the function that serves
the route.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from controlplane.core.model.answers.branches import (
        BranchAnswer,
        BranchDifference,
        BranchesAnswer,
        DropBranchAnswer,
        MergeAnswer,
    )
    from controlplane.core.model.answers.controls import (
        AuditAnswer,
        ImportAnswer,
        PauseAllAnswer,
        PauseAnswer,
        ReadsAnswer,
        RefreshAnswer,
        RetryAnswer,
    )
    from controlplane.core.model.answers.data_diff import DataDifference
    from controlplane.core.model.answers.dataflows import (
        ApplyAnswer,
        ConnectionsAnswer,
        DataflowAnswer,
        DataflowsAnswer,
        DeleteAnswer,
        NotifyAnswer,
        ValidateAnswer,
    )
    from controlplane.core.model.answers.datasets import (
        AllChecksAnswer,
        ChecksAnswer,
        GenerationsAnswer,
        HistoryAnswer,
        PartitionsAnswer,
        TasksAnswer,
    )
    from controlplane.core.model.answers.examples import ExampleAnswer
    from controlplane.core.model.answers.explore import (
        GraphAnswer,
        PartitionAnswer,
        RangesAnswer,
        SearchAnswer,
        WaveAnswer,
        WavesAnswer,
    )
    from controlplane.core.model.answers.feeds import FeedEntry, FeedsAnswer, OfferedFeedsAnswer
    from controlplane.core.model.answers.holds import RollbackAnswer
    from controlplane.core.model.answers.lineage import LineageAnswer
    from controlplane.core.model.answers.links import LinksAnswer, NewLinkAnswer
    from controlplane.core.model.answers.namespaces import NamespaceEntry, NamespacesAnswer
    from controlplane.core.model.answers.plans import PlanAnswer
    from controlplane.core.model.answers.profiles import ProfileAnswer, ProfileHistoryAnswer
    from controlplane.core.model.answers.promotion import OpenedAnswer, PromotionAnswer
    from controlplane.core.model.answers.queries import CancelAnswer, QueryAnswer
    from controlplane.core.model.answers.roles import RoleEntry, RolesAnswer
    from controlplane.core.model.answers.runs import RunBegun, RunProgress
    from controlplane.core.model.answers.shares import (
        NewRecipientAnswer,
        RecipientsAnswer,
        ShareEntry,
        SharesAnswer,
    )
    from controlplane.core.model.answers.spark_sessions import (
        NewSparkSessionAnswer,
        SparkSessionsAnswer,
    )
    from controlplane.core.model.answers.spending import CostAnswer
    from controlplane.core.model.answers.status import (
        DatasetAnswer,
        StatusAnswer,
        TargetStatus,
        WhyAnswer,
    )
    from controlplane.core.model.answers.trust import ExchangeAnswer, TrustAnswer, TrustEntry
    from controlplane.core.model.answers.upkeep import (
        CollectAnswer,
        FsckAnswer,
        HealthAnswer,
        NewS3KeyAnswer,
        NewTokenAnswer,
        S3KeysAnswer,
        SessionLinkAnswer,
        TokensAnswer,
    )
    from controlplane.core.model.answers.work import AttemptsAnswer, PastRunAnswer, PastRunsAnswer
    from controlplane.core.model.json_values import JsonObject

Answer = TypeVar("Answer")
Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE"]


@dataclass(frozen=True, slots=True)
class Route(Generic[Answer]):
    """A call whose answer is the JSON of an Answer; without a body for None, a stream or a text for
    `bytes` and `str`. `status`: that of success."""

    method: Method
    template: str
    status: int = 200

    @property
    def path(self) -> str:
        return self.template.partition("{?")[0]

    @property
    def query(self) -> tuple[str, ...]:
        names = self.template.partition("{?")[2]
        return tuple(names.removesuffix("}").split(",")) if names else ()


DATASET_PATH = "/v1/branches/{branch}/datasets/{dataset}"

LIVEZ: Route[HealthAnswer] = Route("GET", "/livez")
READYZ: Route[HealthAnswer] = Route("GET", "/readyz")
BLUEPRINT_SCHEMA: Route[JsonObject] = Route("GET", "/schema/blueprint-v1.json")

APPLY: Route[ApplyAnswer] = Route(
    "POST", "/v1/blueprints{?branch,dry_run,refresh,analyse,modes,timeout_s,override}"
)
VALIDATE: Route[ValidateAnswer] = Route("POST", "/v1/validate")
CONNECTIONS: Route[ConnectionsAnswer] = Route("POST", "/v1/connections")
DATAFLOWS: Route[DataflowsAnswer] = Route("GET", "/v1/branches/{branch}/dataflows")
DATAFLOW: Route[DataflowAnswer] = Route("GET", "/v1/branches/{branch}/dataflows/{dataflow}")
DELETE_DATAFLOW: Route[DeleteAnswer] = Route(
    "DELETE", "/v1/branches/{branch}/dataflows/{dataflow}{?override}"
)
PLAN: Route[PlanAnswer] = Route(
    "GET", "/v1/branches/{branch}/plan{?dataflow,refresh,looked,modes,timeout_s,after,limit}"
)
CARRY_OUT: Route[ApplyAnswer] = Route("POST", "/v1/branches/{branch}/plan{?override}")

BEGIN_RUN: Route[RunBegun] = Route("POST", "/v1/branches/{branch}/run{?override}")
RUN_PROGRESS: Route[RunProgress] = Route("GET", "/v1/branches/{branch}/run{?dataflow,since}")

CREATE_BRANCH: Route[BranchAnswer] = Route("POST", "/v1/branches", 201)
BRANCHES: Route[BranchesAnswer] = Route("GET", "/v1/branches")
BRANCH: Route[BranchAnswer] = Route("GET", "/v1/branches/{branch}")
PROTECT_BRANCH: Route[BranchAnswer] = Route("PUT", "/v1/branches/{branch}/protection")
UPDATE_BRANCH: Route[BranchAnswer] = Route("POST", "/v1/branches/{branch}/update")
DELETE_BRANCH: Route[DropBranchAnswer] = Route("DELETE", "/v1/branches/{branch}{?override}")
MERGE_BRANCH: Route[MergeAnswer] = Route("POST", "/v1/branches/{branch}/merge")

DIFF_BRANCHES: Route[BranchDifference | DataDifference] = Route(
    "GET", "/v1/branches/{branch}/diff/{other}{?dataset,partition,rows,key,after,limit,timeout_s}"
)
DIFF_DATASET: Route[DataDifference] = Route(
    "GET", DATASET_PATH + "/diff{?one,other,partition,rows,key,after,limit,timeout_s}"
)

ROLLBACK: Route[RollbackAnswer] = Route("POST", "/v1/branches/{branch}/rollback{?override}")
IMPORT: Route[ImportAnswer] = Route("POST", "/v1/branches/{branch}/import{?timeout_s,override}")
REVERT: Route[ApplyAnswer] = Route(
    "POST", "/v1/branches/{branch}/dataflows/{dataflow}/revert{?override}"
)

STATUS: Route[StatusAnswer] = Route(
    "GET", "/v1/branches/{branch}/status{?target,refresh,long,timeout_s}"
)
DATASET: Route[DatasetAnswer | TargetStatus] = Route("GET", DATASET_PATH)
PARTITIONS: Route[PartitionsAnswer] = Route(
    "GET", DATASET_PATH + "/partitions{?after,limit,prefix,state,changed_in,generation,at}"
)
HISTORY: Route[HistoryAnswer] = Route("GET", DATASET_PATH + "/history{?before,limit,generation,at}")
GENERATIONS: Route[GenerationsAnswer] = Route(
    "GET", "/v1/branches/{branch}/dataflows/{dataflow}/generations{?at,consistent}"
)
CHECKS: Route[ChecksAnswer] = Route("GET", DATASET_PATH + "/checks{?generation,at}")
ALL_CHECKS: Route[AllChecksAnswer] = Route("GET", "/v1/branches/{branch}/checks")
TASKS: Route[TasksAnswer | AttemptsAnswer] = Route(
    "GET", DATASET_PATH + "/tasks{?after,limit,state}"
)
DATASET_LOG: Route[str] = Route("GET", DATASET_PATH + "/log{?tail}")
WHY: Route[WhyAnswer] = Route("GET", DATASET_PATH + "/why{?partition,all,generation,at}")

LINEAGE: Route[LineageAnswer] = Route(
    "GET", DATASET_PATH + "/lineage{?column,partition,direction,object,limit,generation,at}"
)

GRAPH: Route[GraphAnswer] = Route(
    "GET", "/v1/branches/{branch}/graph{?dataflow,around,up,down,collapse,limit}"
)
RANGES: Route[RangesAnswer] = Route(
    "GET", DATASET_PATH + "/ranges{?against,from,to,cells,generation,at}"
)
PARTITION: Route[PartitionAnswer] = Route("GET", DATASET_PATH + "/partition{?key,generation,at}")
WAVES: Route[WavesAnswer] = Route("GET", "/v1/branches/{branch}/waves{?dataflow,before,limit}")
WAVE: Route[WaveAnswer] = Route("GET", "/v1/branches/{branch}/waves/{wave}")
SEARCH: Route[SearchAnswer] = Route("GET", "/v1/search{?q,branch,limit}")

PROFILE: Route[ProfileAnswer] = Route(
    "GET", DATASET_PATH + "/profile{?partition,column,generation,at}"
)
PROFILE_HISTORY: Route[ProfileHistoryAnswer] = Route(
    "GET", DATASET_PATH + "/profile/history{?column}"
)

PAST_RUNS: Route[PastRunsAnswer] = Route("GET", "/v1/branches/{branch}/runs{?target,limit}")
COST: Route[CostAnswer] = Route("GET", "/v1/branches/{branch}/cost{?target,days,limit}")
PAST_RUN: Route[PastRunAnswer] = Route("GET", "/v1/branches/{branch}/runs/{run}")

EVENTS: Route[bytes] = Route("GET", "/v1/events{?after,follow,branch}")
METRICS: Route[str] = Route("GET", "/metrics")

REFRESH: Route[RefreshAnswer] = Route("POST", "/v1/branches/{branch}/refresh")
RETRY: Route[RetryAnswer] = Route("POST", "/v1/branches/{branch}/retry")
PAUSE: Route[PauseAnswer | PauseAllAnswer] = Route("POST", "/v1/branches/{branch}/pause")
RESUME: Route[PauseAnswer | PauseAllAnswer] = Route("POST", "/v1/branches/{branch}/resume")
ATTEMPT_LOG: Route[str] = Route("GET", "/v1/attempts/{attempt}/log{?tail}")
DRIVER_LOG: Route[str] = Route("GET", "/v1/drivers/{driver}/log{?tail}")

NOTIFY: Route[NotifyAnswer] = Route("POST", "/v1/branches/{branch}/notify")

GC: Route[CollectAnswer] = Route("POST", "/v1/gc")
FSCK: Route[FsckAnswer] = Route("POST", "/v1/fsck")

RECORDS: Route[bytes] = Route(
    "GET",
    DATASET_PATH
    + "/records{?format,generation,at,partition,columns,where,offset,limit,compression}",
)
RECORDS_FILE: Route[bytes] = Route(
    "GET",
    DATASET_PATH
    + "/records.{format}{?generation,at,partition,columns,where,offset,limit,compression}",
)

CHANGES: Route[bytes] = Route(
    "GET", DATASET_PATH + "/changes.{format}{?since,until,compression,columns,where}"
)

QUERY: Route[QueryAnswer] = Route("POST", "/v1/branches/{branch}/query")
QUERY_PAGE: Route[QueryAnswer] = Route("GET", "/v1/branches/{branch}/query/{query}{?after,limit}")
CANCEL_QUERY: Route[CancelAnswer] = Route("DELETE", "/v1/branches/{branch}/query/{query}")
PROMOTE: Route[PromotionAnswer] = Route("POST", "/v1/branches/{branch}/query/promote")
QUERY_OF: Route[OpenedAnswer] = Route("GET", DATASET_PATH + "/query")

ASK_TEST: Route[ExampleAnswer] = Route("POST", "/v1/tests")

OPEN_SPARK_SESSION: Route[NewSparkSessionAnswer] = Route(
    "POST", "/v1/branches/{branch}/spark-sessions", 201
)
SPARK_SESSIONS: Route[SparkSessionsAnswer] = Route("GET", "/v1/spark-sessions")
END_SPARK_SESSION: Route[None] = Route("DELETE", "/v1/spark-sessions/{session}", 204)

CREATE_LINK: Route[NewLinkAnswer] = Route("POST", "/v1/links", 201)
LINKS: Route[LinksAnswer] = Route("GET", "/v1/links")
REVOKE_LINK: Route[None] = Route("DELETE", "/v1/links/{link}", 204)
READ_LINK: Route[bytes] = Route("GET", "/v1/links/{link}/{file}{?signature}")

CREATE_SHARE: Route[ShareEntry] = Route("POST", "/v1/shares", 201)
SHARES: Route[SharesAnswer] = Route("GET", "/v1/shares")
SHARE: Route[ShareEntry] = Route("GET", "/v1/shares/{share}")
DELETE_SHARE: Route[None] = Route("DELETE", "/v1/shares/{share}", 204)
ADD_TO_SHARE: Route[ShareEntry] = Route("POST", "/v1/shares/{share}/tables", 201)
REMOVE_FROM_SHARE: Route[ShareEntry] = Route("DELETE", "/v1/shares/{share}/tables/{table}")
CREATE_RECIPIENT: Route[NewRecipientAnswer] = Route("POST", "/v1/recipients", 201)
RECIPIENTS: Route[RecipientsAnswer] = Route("GET", "/v1/recipients")
REVOKE_RECIPIENT: Route[None] = Route("DELETE", "/v1/recipients/{recipient}", 204)

CREATE_FEED: Route[FeedEntry] = Route("POST", "/v1/feeds", 201)
FEEDS: Route[FeedsAnswer] = Route("GET", "/v1/feeds")
FEED: Route[FeedEntry] = Route("GET", "/v1/feeds/{feed}")
CHANGE_FEED: Route[FeedEntry] = Route("PUT", "/v1/feeds/{feed}")
DELETE_FEED: Route[None] = Route("DELETE", "/v1/feeds/{feed}", 204)
GRANT_FEED: Route[FeedEntry] = Route("POST", "/v1/feeds/{feed}/grants", 201)
REVOKE_FEED: Route[FeedEntry] = Route("DELETE", "/v1/feeds/{feed}/grants/{namespace}{?dataflows}")
OFFERED_FEEDS: Route[OfferedFeedsAnswer] = Route("GET", "/v1/offers")

CREATE_TOKEN: Route[NewTokenAnswer] = Route("POST", "/v1/tokens", 201)
TOKENS: Route[TokensAnswer] = Route("GET", "/v1/tokens")
REVOKE_TOKEN: Route[None] = Route("DELETE", "/v1/tokens/{id}", 204)

CREATE_TRUST: Route[TrustEntry] = Route("POST", "/v1/trust", 201)
TRUST: Route[TrustAnswer] = Route("GET", "/v1/trust")
DELETE_TRUST: Route[None] = Route("DELETE", "/v1/trust/{rule}", 204)
EXCHANGE: Route[ExchangeAnswer] = Route("POST", "/v1/tokens/exchange", 201)

CREATE_ROLE: Route[RoleEntry] = Route("POST", "/v1/roles", 201)
ROLES: Route[RolesAnswer] = Route("GET", "/v1/roles")
ROLE: Route[RoleEntry] = Route("GET", "/v1/roles/{role}")
CHANGE_ROLE: Route[RoleEntry] = Route("PUT", "/v1/roles/{role}")
DELETE_ROLE: Route[None] = Route("DELETE", "/v1/roles/{role}", 204)

CREATE_S3_KEY: Route[NewS3KeyAnswer] = Route("POST", "/v1/s3/keys", 201)
S3_KEYS: Route[S3KeysAnswer] = Route("GET", "/v1/s3/keys")
REVOKE_S3_KEY: Route[None] = Route("DELETE", "/v1/s3/keys/{key}", 204)

CREATE_NAMESPACE: Route[NamespaceEntry] = Route("POST", "/v1/namespaces", 201)
NAMESPACES: Route[NamespacesAnswer] = Route("GET", "/v1/namespaces")
NAMESPACE: Route[NamespaceEntry] = Route("GET", "/v1/namespaces/{namespace}")
DELETE_NAMESPACE: Route[None] = Route("DELETE", "/v1/namespaces/{namespace}", 204)

SESSION_LINK: Route[SessionLinkAnswer] = Route("POST", "/v1/session-links", 201)

AUDIT: Route[AuditAnswer] = Route("GET", "/v1/audit{?limit,branch,since,until,all_branches}")
AUDIT_READS: Route[ReadsAnswer] = Route("GET", "/v1/audit/reads{?limit,branch,since,until}")
