"""A history written by hand, one call a line, for the tests of the verifier."""

from __future__ import annotations

from minikafka_chaos.history import (
    ASSIGN,
    END_OFFSET,
    FAIL,
    INFO,
    INVOKE,
    OK,
    POLL,
    READ,
    SEND,
    WORKLOAD,
    Op,
    WorkloadSettings,
)

TOPIC = "t"
READER = 100


class Story:
    """Builds the lines of a history; each line is one second after the one before."""

    def __init__(self, settings: WorkloadSettings | None = None) -> None:
        self.lines: list[Op] = []
        if settings is not None:
            self._add(-1, WORKLOAD, INFO, settings=settings.as_settings())

    def _add(self, process: int, op: str, kind: str, **fields: object) -> Story:
        self.lines.append(Op(float(len(self.lines)), process, op, kind, **fields))  # type: ignore[arg-type]
        return self

    def invoke(self, value: str, process: int = 1, partition: int | None = 0) -> Story:
        return self._add(process, SEND, INVOKE, topic=TOPIC, partition=partition, value=value)

    def ok(self, value: str, offset: int | None, process: int = 1, partition: int = 0) -> Story:
        return self._add(process, SEND, OK, topic=TOPIC, partition=partition, offset=offset, value=value)

    def fail(self, value: str, process: int = 1) -> Story:
        return self._add(process, SEND, FAIL, topic=TOPIC, partition=0, value=value, error="MSG_SIZE_TOO_LARGE")

    def unknown(self, value: str, process: int = 1) -> Story:
        return self._add(process, SEND, INFO, topic=TOPIC, partition=0, value=value, error="_MSG_TIMED_OUT")

    def acked(self, value: str, offset: int, process: int = 1, partition: int = 0) -> Story:
        return self.invoke(value, process, partition).ok(value, offset, process, partition)

    def assign(self, offset: int = 0, process: int = READER, partition: int = 0) -> Story:
        return self._add(process, ASSIGN, OK, topic=TOPIC, partition=partition, offset=offset)

    def poll(self, records: list[tuple[int, str]], batch: int = 1, process: int = READER, partition: int = 0) -> Story:
        for offset, value in records:
            self._add(process, POLL, OK, topic=TOPIC, partition=partition, offset=offset, value=value, batch=batch)
        return self

    def read_to(self, end: int, process: int = READER, partition: int = 0) -> Story:
        return self._add(process, READ, OK, topic=TOPIC, partition=partition, offset=end)

    def read_stopped(self, offset: int, process: int = READER) -> Story:
        return self._add(process, READ, INFO, topic=TOPIC, partition=0, offset=offset, error="deadline")

    def end_offset(self, offset: int, process: int = READER) -> Story:
        return self._add(process, END_OFFSET, OK, topic=TOPIC, partition=0, offset=offset)

    def final(self, values: list[str], end: int | None = None, start: int = 0) -> Story:
        """A final reader that finds these values from `start` on and reaches the end."""
        records = [(start + index, value) for index, value in enumerate(values)]
        process = READER + 1
        self.assign(start, process).poll(records, process=process)
        return self.read_to(start + len(values) if end is None else end, process)

    @property
    def now(self) -> float:
        """The time of the next line."""
        return float(len(self.lines))
