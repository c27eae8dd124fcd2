"""Which part of the view a key may see. Every path is checked here, also those of a listing."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.core import scopes
from controlplane.core.errors import HeadgateError
from controlplane.core.rights import EVERYTHING, Principal, may
from controlplane.core.scopes import ANY, Scope
from controlplane.services.s3 import s3_addresses
from controlplane.services.s3.s3_addresses import Ref, TableAddress


class OutOfScope(HeadgateError):
    """The scopes of a key do not cover the requested path, whether that exists or not."""

    code = "forbidden"


@dataclass(frozen=True, slots=True)
class Reader:
    """A key at work."""

    scopes: tuple[Scope, ...]
    principal: Principal = EVERYTHING

    def may_read(self, table: TableAddress) -> bool:
        is_let = may(self.principal, "data", dataset=table.name, branch=table.ref.branch)
        return is_let and scopes.allows(
            self.scopes, table.ref.branch, table.dataflow, table.dataset
        )

    def may_see_part_of(self, ref: Ref, dataflow: str = ANY) -> bool:
        """Whether there may be a dataset in it that the key reads."""
        return may(self.principal, "data", branch=ref.branch) and any(
            scope.branch in (ANY, ref.branch)
            and (ANY in (scope.dataflow, dataflow) or scope.dataflow == dataflow)
            for scope in self.scopes
        )

    def check_prefix(self, prefix: str) -> None:
        """Raise OutOfScope for a prefix below which the key can read nothing."""
        ref_text, *names = prefix.split("/")
        ref = s3_addresses.ref(ref_text)
        if not names or ref is None:
            return
        is_seen = self.may_see_part_of(ref, names[0] if len(names) > 1 else ANY)
        table = s3_addresses.table(ref_text, names[0], names[1]) if len(names) > 2 else None
        if not is_seen or (table is not None and not self.may_read(table)):
            raise OutOfScope("the scopes of this key do not cover this prefix")
