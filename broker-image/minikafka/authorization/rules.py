"""What an API needs, as a rule that takes out of a request what its client may not ask, and puts the refusals into the answer.

Handlers are served what is left, so none of them knows of ACLs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from minikafka.authorization.service import Authorization, Caller, TopicsAndAcls
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.security.acls import CLUSTER_NAME, Operation, ResourceType

Answer = dict[str, Any]
"""Of an API, by kio's names of its fields."""

FAILED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of a refusal, by what it is about."""


class Need(NamedTuple):
    """An operation on a resource, as the table in the documentation has it."""

    operation: Operation
    kind: ResourceType
    note: str = ""
    refuses: bool = True
    """Whether a client without it is told an error of its own."""

    @property
    def error(self) -> ErrorCode:
        return FAILED[self.kind]


class ClientAccess:
    """One request's client, and what it may do."""

    def __init__(
        self, authorization: Authorization, metadata: TopicsAndAcls, client: Caller, key: ApiKey, version: int
    ) -> None:
        self._authorization = authorization
        self._client = client
        self.metadata = metadata
        self.creates_on_demand = authorization.creates_on_demand
        self.key = key
        self.version = version

    def may(self, need: Need, name: str = CLUSTER_NAME) -> bool:
        """Whether it may be done; a refusal is told."""
        if self.could(need, name):
            return True
        self.refuse(need, name)
        return False

    def could(self, need: Need, name: str = CLUSTER_NAME) -> bool:
        """Whether it may be done; nobody is told when not, as where other things may be allowed instead."""
        return self._authorization.allows(self._client, need.operation, need.kind, name)

    def could_any(self, need: Need) -> bool:
        """Whether it may be done with some resource."""
        return self._authorization.allows_any(self._client, need.operation, need.kind)

    def refuse(self, need: Need, name: str = CLUSTER_NAME) -> None:
        """Tell of a refusal."""
        self._authorization.denied(self._client, self.key, need.operation, need.kind, name)


def _as_it_is(answer: Answer) -> Answer:
    return answer


class Screened(NamedTuple):
    """What is left of a request (None: nothing that is to be served), and what makes the answer out of its answer."""

    request: Any
    finish: Callable[[Answer], Answer] = _as_it_is


class ApiRule(Protocol):
    """Of one API."""

    @property
    def needs(self) -> Sequence[Need]:
        """What the documentation tells."""
        ...

    def screen(self, access: ClientAccess, request: Any) -> Screened:
        """Take out of a request what may not be asked."""
        ...


@dataclass(frozen=True)
class Unscreened:
    """Everybody is served what they ask; what there still is to need, its handler asks."""

    needs: tuple[Need, ...] = ()

    def screen(self, access: ClientAccess, request: Any) -> Screened:
        del access
        return Screened(request)


@dataclass(frozen=True)
class Whole:
    """A request is served, or refused as a whole. ``refusal`` takes request, version and error."""

    need: Need
    refusal: Callable[[Any, int, ErrorCode], Answer]
    name: Callable[[Any], str] = lambda _: CLUSTER_NAME

    @property
    def needs(self) -> Sequence[Need]:
        return (self.need,)

    def screen(self, access: ClientAccess, request: Any) -> Screened:
        if access.may(self.need, self.name(request)):
            return Screened(request)
        refused = self.refusal(request, access.version, self.need.error)
        return Screened(None, lambda _: refused)


Chosen = tuple[Need, str]
"""What a row needs: with the name of the resource."""


@dataclass(frozen=True)
class Rows:
    """Each row of a request is served or refused.

    Args:
        choose: what a row needs; None: nothing, its handler will find it wrong.
        asked: the rows of the request.
        answered: the rows of the answer.
        refusal: the answer's row for one that is refused.
        needs: what the documentation tells.
        instead: what is as good for all rows at once.
        absent: why a row is about nothing, if it is: it is answered here, and neither served nor passed on.
    """

    choose: Callable[[Any, ClientAccess], Chosen | None]
    asked: str
    answered: str
    refusal: Callable[[Any, ErrorCode], Answer]
    needs: tuple[Need, ...]
    instead: Need | None = None
    absent: Callable[[Any, ClientAccess], ErrorCode | None] = lambda _row, _access: None

    def screen(self, access: ClientAccess, request: Any) -> Screened:
        if self.instead is not None and access.could(self.instead):
            return Screened(request)
        left, refused = [], []
        for row in getattr(request, self.asked, None) or ():
            code = self.absent(row, access)
            chosen = self.choose(row, access)
            if code is not None:
                refused.append(self.refusal(row, code))
            elif chosen is None or access.may(*chosen):
                left.append(row)
            else:
                refused.append(self.refusal(row, chosen[0].error))
        if not refused:
            return Screened(request)
        rest = replace(request, **{self.asked: tuple(left)}) if left else None
        return Screened(rest, lambda answer: {**answer, self.answered: [*answer.get(self.answered, ()), *refused]})


@dataclass(frozen=True)
class Both:
    """One rule, and another for what is left."""

    first: ApiRule
    second: ApiRule

    @property
    def needs(self) -> Sequence[Need]:
        return (*self.first.needs, *self.second.needs)

    def screen(self, access: ClientAccess, request: Any) -> Screened:
        outer = self.first.screen(access, request)
        if outer.request is None:
            return outer
        inner = self.second.screen(access, outer.request)
        return Screened(inner.request, lambda answer: outer.finish(inner.finish(answer)))


@dataclass(frozen=True)
class Special:
    """What no other rule fits."""

    needs: tuple[Need, ...]
    screens: Callable[[ClientAccess, Any], Screened]

    def screen(self, access: ClientAccess, request: Any) -> Screened:
        return self.screens(access, request)


Rules = Mapping[ApiKey, ApiRule]
