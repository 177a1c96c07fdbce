"""The APIs of consumer groups, one module each."""

from __future__ import annotations

from minikafka.server.api import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)

SPECS = tuple(
    (module.SPEC, module.handle)
    for module in (
        offset_commit,
        offset_fetch,
        find_coordinator,
        join_group,
        heartbeat,
        leave_group,
        sync_group,
        describe_groups,
        list_groups,
        delete_groups,
        offset_delete,
    )
)
