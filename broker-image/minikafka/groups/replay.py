"""Reading one partition of ``__consumer_offsets`` back into groups, after this broker became its leader."""

from __future__ import annotations

from collections.abc import Iterator

from minikafka.groups.group import Group
from minikafka.groups.records import (
    CommittedOffset,
    GroupKey,
    MalformedGroupRecord,
    OffsetKey,
    StoredGroup,
    read_group_value,
    read_key,
    read_offset_value,
)
from minikafka.protocol.types import TopicPartition


class Replay:
    """Takes the records one by one, so that a long log can be loaded in slices."""

    def __init__(self) -> None:
        self.records = 0
        self.malformed: list[tuple[int, str]] = []
        """(offset, reason) of records that could not be read and were passed over."""
        self._groups: dict[str, StoredGroup] = {}
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}

    def add(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """The next record of the log. The last one of each key counts; a value of None removes."""
        self.records += 1
        try:
            if key is None:
                raise MalformedGroupRecord("a record without a key")
            subject = read_key(key)
            if isinstance(subject, OffsetKey):
                self._add_offset(subject, value)
            elif isinstance(subject, GroupKey):
                self._add_group(subject, value)
        except MalformedGroupRecord as error:
            self.malformed.append((offset, str(error)))

    def _add_offset(self, subject: OffsetKey, value: bytes | None) -> None:
        if value is not None:
            self._offsets.setdefault(subject.group_id, {})[subject.topic_partition] = read_offset_value(value)
            return
        offsets = self._offsets.get(subject.group_id, {})
        offsets.pop(subject.topic_partition, None)
        if not offsets:
            self._offsets.pop(subject.group_id, None)

    def _add_group(self, subject: GroupKey, value: bytes | None) -> None:
        if value is None:
            self._groups.pop(subject.group_id, None)
        else:
            self._groups[subject.group_id] = read_group_value(value)

    def groups(self) -> Iterator[Group]:
        """The groups as they are after the last record, always in the same order."""
        for group_id in dict.fromkeys((*self._groups, *self._offsets)):
            stored = self._groups.get(group_id)
            group = Group(group_id, 0) if stored is None else Group.restored(group_id, stored)
            for partition, committed in self._offsets.get(group_id, {}).items():
                group.offsets.restore(partition, committed)
            yield group
