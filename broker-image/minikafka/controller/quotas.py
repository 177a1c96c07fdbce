"""Quotas of clients: what may be altered (Kafka's ``ClientQuotaControlManager``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from minikafka.controller.workspace import Workspace
from minikafka.metadata.image import QUOTA
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.quotas.entities import Entity, EntityQuotas, check_entity, check_value, record_name


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """What is to become of the quotas of one entity: (name, value) of each; the value None removes it."""

    entity: Entity
    operations: Sequence[tuple[str, float | None]]


class QuotaRegistry:
    """Alters quotas."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def alter(self, alterations: Sequence[QuotaAlteration], validate_only: bool) -> dict[Entity, KafkaError | None]:
        """By entity: why nothing of what was asked for it was done, or None."""
        times = Counter(alteration.entity for alteration in alterations)
        results: dict[Entity, KafkaError | None] = {}
        wished: list[EntityQuotas] = []
        for alteration in alterations:
            results[alteration.entity] = None
            try:
                wished.append(self._wished(alteration, times[alteration.entity]))
            except KafkaError as refused:
                results[alteration.entity] = refused
        try:
            self._workspace.check_room(*wished)
        except KafkaError as no_room:
            return results | {each.entity: no_room for each in wished}
        if not validate_only:
            for each in wished:
                self._put(each)
        return results

    def _wished(self, alteration: QuotaAlteration, times: int) -> EntityQuotas:
        """All quotas that the entity is to have. Raises KafkaError INVALID_REQUEST."""
        entity, operations = alteration.entity, dict(alteration.operations)
        if times > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {record_name(entity)}")
        check_entity(entity)
        if len(operations) < len(alteration.operations):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate quota key for {record_name(entity)}")
        values = dict(self._workspace.image.quotas.of(entity))
        for key, value in operations.items():
            if value is None:
                values.pop(key, None)
                continue
            check_value(entity, key, value)
            values[key] = value
        return EntityQuotas(entity, values)

    def _put(self, wished: EntityQuotas) -> None:
        before, name = self._workspace.image.quotas.of(wished.entity), record_name(wished.entity)
        if dict(before) == dict(wished.values):
            return
        self._workspace.put_record(QUOTA + name, wished.to_json() if wished.values else None)
        self._tell(name, before, wished.values)

    def _tell(self, entity: str, before: Mapping[str, float], after: Mapping[str, float]) -> None:
        for key in sorted(before.keys() | after.keys()):
            was, now = before.get(key), after.get(key)
            previous = None if was is None else f"{was:g}"
            if now is None:
                self._workspace.note("quota_removed", entity=entity, key=key, previous=previous)
            elif now != was:
                self._workspace.note("quota_set", entity=entity, key=key, value=f"{now:g}", previous=previous)
