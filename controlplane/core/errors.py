"""Errors as facts with fields. HTTP statuses and exit codes are added at the edges, not here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOVED_SHOWN = 10


class HeadgateError(Exception):
    """Any error with a message for users. `code` is stable and listed in docs/errors.md."""

    code = "error"


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong with a document. Lines and columns count from 1; 0 where there is no
    place."""

    file: str
    line: int
    column: int
    code: str
    message: str
    hint: str = ""

    @property
    def summary(self) -> str:
        """Without its file and the hint."""
        return f"{self.code}: {self.message} (line {self.line}, column {self.column})"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.code}: {self.message}" + (
            f" ({self.hint})" if self.hint else ""
        )


@dataclass(frozen=True, slots=True)
class Checked:
    """The verdict on a set of blueprints that stands alone: problems, or else notices."""

    problems: tuple[Problem, ...] = ()
    notices: tuple[Problem, ...] = ()


class InvalidBlueprint(HeadgateError):
    """A blueprint, or a set of them, is refused whole, with every problem."""

    code = "invalid-blueprint"

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class Broken(HeadgateError):
    """A part of the control plane ended that must not; the process ends, and another one is to be
    started."""

    code = "control-plane-broken"


class NotFound(HeadgateError):
    """A dataflow, dataset, partition or attempt that does not exist."""

    code = "not-found"


class BadNamespace(HeadgateError):
    """A name that no namespace can have. The message shows the form."""

    code = "bad-namespace"


class NamespaceInUse(HeadgateError):
    """Only an empty namespace can be deleted."""

    code = "namespace-in-use"


class NotAdministered(HeadgateError):
    """A token of one namespace requested an operation on the whole installation."""

    code = "forbidden"


class BadAddress(HeadgateError):
    """What stands behind the @ of an address is neither a generation nor a time. The message shows
    both forms."""

    code = "bad-address"


class BadFeed(HeadgateError):
    """A feed, its contract or a grant of it is not written as it has to be, or the dataset does not
    keep the contract. The message shows the form."""

    code = "bad-feed"


class FeedInUse(HeadgateError):
    """A feed cannot be deleted while it is read. The message names the readers."""

    code = "feed-in-use"


class BadScope(HeadgateError):
    """What a token or an S3 key is to be narrowed to is not written as a pattern or scope. The
    message shows the form."""

    code = "bad-scope"


class BadTrust(HeadgateError):
    """A rule of trust is not written as one, or would let in all callers. The message shows the
    form."""

    code = "bad-trust"


class BadIdentity(HeadgateError):
    """An identity token is malformed, has ended, or has the wrong issuer or audience."""

    code = "unauthenticated"


class NotTrusted(HeadgateError):
    """An identity token is right, and no rule of trust gives its holder a role."""

    code = "forbidden"


class IssuerUnreachable(HeadgateError):
    """An issuer of identity tokens does not answer, or not as one does."""

    code = "unavailable"


class BadCondition(HeadgateError):
    """The filter on a dataset's rows is no condition on one row, or names no column of it."""

    code = "bad-condition"

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problems = (problem,)


class BadColumns(HeadgateError):
    """A list of columns names one that a dataset does not have, or one twice."""

    code = "bad-columns"


class TooManyStreams(HeadgateError):
    """The limit of bodies being sent is reached, in all or for one caller: try again later."""

    code = "unavailable"


class WrongSignature(HeadgateError):
    """An address is no signed link, or not a whole one."""

    code = "wrong-signature"


class LinkEnded(HeadgateError):
    """A signed link is over: its time is, or it was revoked, or the token that made it ended."""

    code = "link-ended"


class GenerationGone(HeadgateError):
    """A dataset had the requested generation, or may have had it, and keeps it no longer. The
    message has the oldest kept."""

    code = "generation-gone"


class NotConsistent(HeadgateError):
    """No states of a dataflow's datasets were found that were made from the same sources."""

    code = "not-consistent"


class NotCompared(HeadgateError):
    """Rows could not be compared: a column is not there, or they take more time, memory or disk
    than there is."""

    code = "not-compared"


class QueryRefused(HeadgateError):
    """A query is not run, or failed by its own fault. The problem has its place in the text, where
    there is one."""

    code = "query-refused"

    def __init__(self, problem: Problem) -> None:
        place = f"line {problem.line}, column {problem.column}: " if problem.line else ""
        super().__init__(f"{place}{problem.message}")
        self.problems = (problem,)


class QueryLimit(HeadgateError):
    """A query met a bound: time, memory, disk, or the size of its result."""

    code = "query-limit"


class QueryCancelled(HeadgateError):
    """A query was cancelled while it ran."""

    code = "query-cancelled"


class QueriesBusy(HeadgateError):
    """All processes that answer queries have work, or as many of them as one user may have, and so
    does the queue before them."""

    code = "queries-busy"


class EngineUnavailable(HeadgateError):
    """An engine that a query was to be run by does not start, or is not offered by this service."""

    code = "engine-unavailable"


class RowsUnreadable(HeadgateError):
    """A file that a query reads is missing or damaged, or where it lies cannot be reached."""

    code = "unavailable"


class QueryCrashed(HeadgateError):
    """The process that answered a query ended. Others go on."""

    code = "query-crashed"


class LogGone(HeadgateError):
    """The log of a driver or worker is no longer available."""

    code = "log-gone"


class StaleRevision(HeadgateError):
    """Another revision was stored first: read it, then send yours with its ETag."""

    code = "stale-revision"

    def __init__(self, dataflow: str, expected: int, actual: int) -> None:
        super().__init__(f"dataflow {dataflow} is at revision {actual}, not {expected}")
        self.dataflow, self.expected, self.actual = dataflow, expected, actual


class PlanMoved(HeadgateError):
    """A plan is not carried out, as its basis has changed: nothing was stored."""

    code = "plan-moved"

    def __init__(self, moved: Sequence[str]) -> None:
        shown = "; ".join(moved[:MOVED_SHOWN])
        rest = f"; and {len(moved) - MOVED_SHOWN} more" if len(moved) > MOVED_SHOWN else ""
        super().__init__(f"since the plan was made, {shown}{rest}: nothing was stored; plan again")
        self.moved = tuple(moved)


class NothingPinned(HeadgateError):
    """An inferred schema was to be taken back where there is none."""

    code = "nothing-pinned"


class TooManyRanges(HeadgateError):
    """Many ranges of a dataset were forced already, one after the other."""

    code = "too-many-ranges"


class StaleState(HeadgateError):
    """A dataset's state moved on between reading it and committing to it: plan again."""

    code = "stale-state"


class NotReadable(HeadgateError):
    """An earlier generation is kept, but rows of it are lost."""

    code = "not-readable"

    def __init__(self, dataset: str, generation: int, why: str) -> None:
        super().__init__(
            f"generation {generation} of {dataset} cannot be read any more: {why}; choose another one"
        )


class CutsDisagree(HeadgateError):
    """Datasets were to be rolled back to a time at which they reflected different states of a
    source."""

    code = "cuts-disagree"

    def __init__(
        self, target: str, first: str, second: str, *, source: str, agreed: str | None
    ) -> None:
        before = (
            ""
            if agreed is None
            else f"--to {agreed} (the last time before at which they agreed), or "
        )
        super().__init__(
            f"{first} and {second} reflected different states of {source} then, so nothing of {target} was rolled "
            f"back: {before}--force"
        )
        self.agreed = agreed


class AppendOnly(HeadgateError):
    """A dataset that only adds partitions was to be rolled back."""

    code = "rollback-refused"

    def __init__(self, dataset: str) -> None:
        super().__init__(
            f"{dataset} is append_only, and a rollback would remove or change partitions of its table: "
            "remove append_only first"
        )


class ImportRefused(HeadgateError):
    """A table was not imported, and nothing of its target has changed. `code` says why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class BranchExists(HeadgateError):
    """A branch was to be made whose name is taken."""

    code = "branch-exists"

    def __init__(self, branch: str) -> None:
        super().__init__(f"there is a branch {branch} already")


class BranchProtected(HeadgateError):
    """A branch that changes by merges alone was to be edited."""

    code = "branch-protected"

    def __init__(self, branch: str) -> None:
        super().__init__(
            f"branch {branch} is protected: make a branch of it, edit that, and merge it"
        )


class MainStays(HeadgateError):
    """An operation for other branches was requested on main."""

    code = "main-stays"

    def __init__(self) -> None:
        super().__init__("main is always there and has no end: it is not updated or deleted")


class CannotMerge(HeadgateError):
    """A branch was to be merged into itself, or main into a branch."""

    code = "cannot-merge"


class BranchFollows(HeadgateError):
    """A branch that follows main was to be moved to what main has now."""

    code = "branch-follows"

    def __init__(self, branch: str) -> None:
        super().__init__(
            f"branch {branch} follows main, so it has what main has now: only a pinned one is updated"
        )


class BadRedirect(HeadgateError):
    """A redirect in a branch names a place where the component cannot write, or names no write
    component."""

    code = "bad-redirect"

    def __init__(self, component: str, reason: str) -> None:
        super().__init__(f"{component} cannot be redirected: {reason}")


class BranchEnded(HeadgateError):
    """A branch was deleted while it was merged, or merged into."""

    code = "branch-ended"

    def __init__(self, branch: str) -> None:
        super().__init__(f"branch {branch} was deleted meanwhile: nothing was merged")


@dataclass(frozen=True, slots=True)
class ConflictSide:
    """What one side of a merge says, and where: lines and columns count from 1."""

    file: str
    line: int
    column: int
    text: str


@dataclass(frozen=True, slots=True)
class FoundConflict:
    """What both branches changed: a component, a Python file by its path, or a dataflow where
    `component` is empty. A side is None where it has none."""

    dataflow: str
    component: str
    kind: str
    base: ConflictSide | None
    ours: ConflictSide | None
    theirs: ConflictSide | None


class MergeConflict(HeadgateError):
    """Both branches changed the same component, or the text around the components. There is a
    problem for each of the conflicts."""

    code = "merge-conflict"

    def __init__(self, problems: Sequence[Problem], conflicts: Sequence[FoundConflict]) -> None:
        super().__init__(
            f"{len(problems)} conflicts: {problems[0].message}" if problems else "conflicts"
        )
        self.problems, self.conflicts = tuple(problems), tuple(conflicts)


class MergeNotReady(HeadgateError):
    """A merge was to wait until it leaves nothing to compute. The problems name the datasets that
    are not there yet."""

    code = "merge-not-ready"

    def __init__(self, source: str, into: str, problems: Sequence[Problem]) -> None:
        names = "; ".join(problem.message for problem in problems[:MOVED_SHOWN])
        super().__init__(f"{source} was not merged into {into}: {names}")
        self.problems = tuple(problems)


class NameTaken(HeadgateError):
    """A token was to be made under the name of another that is live."""

    code = "name-taken"


class RoleInUse(HeadgateError):
    """A role with holders cannot be deleted, or changed to one that cannot stand beside others. The
    message names them."""

    code = "role-in-use"


class AmbiguousName(HeadgateError):
    """A token was named that shares its name with another live one. The message has their ids."""

    code = "ambiguous-name"


class Fenced(HeadgateError):
    """An attempt, or one of its tasks, no longer belongs to who reports it."""

    code = "fenced"


class IdempotencyConflict(HeadgateError):
    """An Idempotency-Key came again with another body."""

    code = "idempotency-conflict"


class CorruptNode(HeadgateError):
    """A tree node is missing or its bytes are not what its digest names."""

    code = "corrupt-node"


class MissingPackage(HeadgateError):
    """The operation needs a package that is not installed; the text has the line that installs
    it."""

    code = "missing-package"

    def __init__(self, what: str, package: str | None, extra: str) -> None:
        super().__init__(f"{what} needs the package {package}: pip install 'headgate[{extra}]'")


class BadHome(HeadgateError):
    """Something in the home folder is not as Headgate left it, or cannot be used. The message names
    file and remedy."""

    code = "bad-home"


class HomeLocked(HeadgateError):
    """Another process holds this home folder."""

    code = "home-locked"


class NoToken(HeadgateError):
    """There is a service, and no token to show it."""

    code = "no-token"


class CannotListen(HeadgateError):
    """The service cannot listen on the configured address and port. The message names them, and
    what to do."""

    code = "cannot-listen"


class PoolUnavailable(HeadgateError):
    """The content of a pool cannot be read, or changed, at present: draw no conclusion, and try
    again."""

    code = "pool-unavailable"


DAMAGE_CURE = "run `headgate fsck`, and restore the database from a backup"


def error_text(error: Exception) -> str:
    """An unexpected error, for people."""
    return (
        problem_text(error)
        if isinstance(error, CorruptNode)
        else f"{type(error).__name__}: {error}"
    )


def problem_text(error: HeadgateError) -> str:
    """An expected error, for people. The remedy for damage comes first, since callers cut the
    rest."""
    return f"{error.code}: {DAMAGE_CURE}; {error}" if isinstance(error, CorruptNode) else str(error)
