"""``docs/reference/authorization.md``: what each API needs."""

from __future__ import annotations

from minikafka.authorization.rules import ApiRule
from minikafka.authorization.table import NOTES, RULES
from minikafka.protocol.api_keys import ApiKey
from minikafka.security.acls import ALLOWING, Operation, ResourceType
from minikafka.security.authorizer import SUPPORTED

_INTRODUCTION = """\
# What each API needs

For anyone who writes ACLs: which operation on which resource a request needs where
`authorizer.class.name` is set, and the error without it. Made from the declarations in
`broker-image/minikafka/authorization/` by `make docs`; do not edit. How ACLs are made:
[security.md](../guide/security.md).

It is what Apache Kafka 4.3 needs, where the last column says nothing else. A row of a request that
may not be asked is refused by itself, and the others are served. Brokers, over the inter-broker
listener, may do everything.

| API | needs | error | beside |
|---|---|---|---|
"""

_OPERATIONS = """
## Operations

What a resource of each type has; answers that tell a client what it may do tell of these.

| resource | operations |
|---|---|
"""

_IMPLIED = """
What an ACL allows may be allowed along with others: {implied}; all by ALL.
What is denied denies nothing else.
"""


def authorization_page() -> str:
    """Make the text of ``docs/reference/authorization.md``."""
    rows = "".join(_row(key, RULES[key]) for key in ApiKey if key in RULES)
    operations = "".join(f"| {kind.name} | {_names(SUPPORTED[kind])} |\n" for kind in ResourceType if kind in SUPPORTED)
    implied = "; ".join(
        f"{operation.name} by {_names(sorted(ALLOWING[operation] - {Operation.ALL, operation}))}"
        for operation in (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
    )
    return _INTRODUCTION + rows + _OPERATIONS + operations + _IMPLIED.format(implied=implied)


def _row(key: ApiKey, rule: ApiRule) -> str:
    needs = dict.fromkeys(rule.needs)
    lines = [f"{need.operation.name} on {need.kind.name} {need.note}".strip() for need in needs]
    errors = dict.fromkeys(need.error.name for need in needs if need.refuses)
    return f"| {key.api_name} | {'<br>'.join(lines) or 'nothing'} | {'<br>'.join(errors)} | {NOTES.get(key, '')} |\n"


def _names(operations: object) -> str:
    assert isinstance(operations, list | tuple)
    return ", ".join(operation.name for operation in operations)
