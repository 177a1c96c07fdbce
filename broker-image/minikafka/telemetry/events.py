"""The structured event log: what happened, in order, with its reason; every event and field declared once.

One JSON object a line::

    {"time": unix seconds, "broker": id, "event": name, "topic": str|null, "partition": int|null, "fields": {...}}

``fields`` always holds every declared field of the event; null where the caller had none. Metrics say how much and how
often; events say what led to what, also between two scrapes.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from minikafka.telemetry.event_file import BEGUN_ANEW, BYTES_DEFAULT, EventFile
from minikafka.telemetry.standard_output import StandardOutput


class Field(NamedTuple):
    """A field's JSON type (``int``, ``float``, ``str``, ``bool``, ``ints``, ``strs``) and meaning."""

    type: str
    doc: str


FIELDS: Mapping[str, Field] = {
    "acks": Field("int", "what the producer waited for: 1, or -1 for all"),
    "address": Field("str", "address of the client"),
    "added": Field("ints", "brokers that joined the ISR"),
    "bytes": Field("int", "bytes that are there"),
    "clean": Field("bool", "whether it went the safe way"),
    "component": Field("str", "part of the broker concerned"),
    "client_id": Field("str", "the client's id, as it says itself"),
    "cluster_id": Field("str", "id of the cluster"),
    "controller_epoch": Field("int", "epoch of the controller"),
    "broker_epoch": Field("int", "epoch of the broker's registration"),
    "crc": Field("int", "checksum of the batch"),
    "entity": Field("str", "whose quotas, as client-id=app,user=alice"),
    "error": Field("str", "Kafka's name of the error, or the system's"),
    "from_offset": Field("int", "log end offset, or log start offset, before"),
    "generation": Field("int", "generation of the group"),
    "group": Field("str", "consumer group"),
    "high_watermark": Field("int", "high watermark of this replica"),
    "isr": Field("ints", "in-sync replicas afterwards"),
    "key": Field("str", "name of the setting that changed"),
    "keys": Field("strs", "names of the settings that changed"),
    "leader": Field("int", "broker that leads; -1: none"),
    "leader_epoch": Field("int", "leader epoch"),
    "limit": Field("int", "bytes that may be there"),
    "listener": Field("str", "name of the listener"),
    "listeners": Field("strs", "NAME://HOST:PORT it listens on"),
    "log_end_offset": Field("int", "log end offset of this replica"),
    "log_leader_epoch": Field("int", "the latest leader epoch in the log"),
    "mechanism": Field("str", "mechanism of SASL"),
    "members": Field("int", "members of the group"),
    "offset": Field("int", "offset concerned"),
    "operation": Field("str", "operation of an ACL, as READ"),
    "partition_epoch": Field("int", "partition epoch"),
    "partitions": Field("int", "partitions concerned"),
    "permission": Field("str", "ALLOW or DENY"),
    "principal": Field("str", "who it is, or claims to be; null: it has not come to that"),
    "previous": Field("str", "the value before; null: there was none"),
    "place": Field("str", "MODULE:LINE in the source"),
    "previous_leader": Field("int", "broker that led before; -1: none"),
    "reason": Field("str", "why, in a few words; those of truncations are [below](#why-a-log-was-truncated)"),
    "records": Field("int", "records concerned"),
    "recovery_point": Field("int", "offset up to which the log was known to be flushed"),
    "removed": Field("ints", "brokers that left the ISR"),
    "request": Field("str", "Kafka's name of the request"),
    "resource": Field("str", "type and name, as TOPIC:orders; of an ACL type, kind of pattern and name"),
    "replication_factor": Field("int", "replicas of each partition"),
    "seconds": Field("float", "how long it took"),
    "silent_ms": Field("int", "milliseconds since the last heartbeat"),
    "start_offset": Field("int", "first offset of the leader epoch"),
    "target": Field("int", "broker concerned"),
    "throttle_ms": Field("int", "milliseconds that the client has to wait"),
    "to_offset": Field("int", "the same afterwards"),
    "topic_id": Field("str", "the topic's UUID"),
    "truncated_bytes": Field("int", "bytes cut off as torn or garbage"),
    "value": Field("str", "the value of the setting"),
    "version": Field("str", "version of MiniKafka"),
}


class EventDeclaration(NamedTuple):
    """An event's meaning, its fields, and who emits it: any broker about itself or its replicas, or the controller."""

    doc: str
    fields: tuple[str, ...] = ()
    partition: bool = False


EVENTS: Mapping[str, EventDeclaration] = {
    # the broker
    "broker_starting": EventDeclaration(
        "The process runs and its configuration was accepted.", ("version", "cluster_id")
    ),
    "broker_ready": EventDeclaration("Listeners are open and the broker is unfenced.", ("listeners", "seconds")),
    "broker_stopping": EventDeclaration("It was asked to stop and moves its leaders away.", ("reason",)),
    "broker_stopped": EventDeclaration("Last event of a process that stopped by itself.", ("clean",)),
    "component_failed": EventDeclaration(
        "A part of the broker cannot do its work and tries again; /healthz says so meanwhile, and answers 503 where a restart "
        "may help.",
        ("component", "error"),
    ),
    "component_recovered": EventDeclaration("That part works again.", ("component", "seconds")),
    BEGUN_ANEW: EventDeclaration(
        "The file of events was at half of minikafka.events.max.bytes: it has another name now, and in this one the next begin. "
        "bytes: of the oldest, which are gone; 0: none are.",
        ("bytes",),
    ),
    "internal_error": EventDeclaration(
        "An exception that nobody expected: a mistake of this program; at most once a minute for each place.",
        ("error", "place"),
    ),
    "authentication_failed": EventDeclaration(
        "A client was not let in: its certificate, its password, its token, or what it asked for before it had logged in "
        "(listener metrics: at the port of /metrics). "
        "At most a hundred a minute.",
        ("principal", "address", "listener", "reason"),
    ),
    "authorization_denied": EventDeclaration(
        "A client asked for what ACLs do not allow it. The same once a minute; of all at most a hundred a minute.",
        ("principal", "address", "operation", "resource", "request"),
    ),
    "connection_refused": EventDeclaration(
        "A connection was closed at once, for there are or were too many (key). At most a hundred a minute.",
        ("address", "listener", "key"),
    ),
    "connection_cut": EventDeclaration(
        "A connection was closed for a limit (key). At most a hundred a minute.",
        ("principal", "address", "listener", "key"),
    ),
    "client_throttled": EventDeclaration(
        "A client has exceeded a quota (key) and has to wait. The same once a minute; of all at most a hundred a minute.",
        ("principal", "client_id", "key", "throttle_ms"),
    ),
    "certificates_renewed": EventDeclaration(
        "The files of a listener's certificates have changed; new connections use what is in them now.", ("listener",)
    ),
    "certificates_unusable": EventDeclaration(
        "They have changed, and cannot be used; what was in them before stays in force.", ("listener", "error")
    ),
    "token_keys_renewed": EventDeclaration(
        "The keys that sign the access tokens of a listener (OAUTHBEARER) are others now, or read from their address at last.",
        ("listener",),
    ),
    "token_keys_unusable": EventDeclaration(
        "They cannot be read; those that were read before stay in force, and without any no token is believed.",
        ("listener", "error"),
    ),
    "metrics_tokens_renewed": EventDeclaration("The tokens by which /metrics is read are others now.", ()),
    "metrics_tokens_unusable": EventDeclaration(
        "The file of them has changed, and cannot be used; the tokens before stay in force.", ("error",)
    ),
    # the controller
    "controller_elected": EventDeclaration("This broker is the controller now.", ("controller_epoch",)),
    "controller_resigned": EventDeclaration("This broker no longer is the controller.", ("controller_epoch", "reason")),
    "broker_registered": EventDeclaration("A broker registered.", ("target", "broker_epoch", "clean")),
    "broker_fenced": EventDeclaration(
        "A broker may no longer lead or be in an ISR.", ("target", "broker_epoch", "reason", "silent_ms")
    ),
    "broker_unregistered": EventDeclaration(
        "The controller has forgotten a broker, as UnregisterBroker asked.", ("target", "broker_epoch")
    ),
    "broker_unfenced": EventDeclaration("A broker may lead again.", ("target", "broker_epoch")),
    "acl_created": EventDeclaration(
        "An ACL was made. address: where it counts.", ("principal", "address", "operation", "permission", "resource")
    ),
    "acl_deleted": EventDeclaration(
        "An ACL was removed.", ("principal", "address", "operation", "permission", "resource")
    ),
    "credential_set": EventDeclaration("A user got a SCRAM credential, or another.", ("principal", "mechanism")),
    "credential_removed": EventDeclaration("A user's SCRAM credential was removed.", ("principal", "mechanism")),
    "quota_set": EventDeclaration("An entity got a quota, or another.", ("entity", "key", "value", "previous")),
    "quota_removed": EventDeclaration("An entity's quota was removed.", ("entity", "key", "previous")),
    "leader_elected": EventDeclaration(
        "A partition got a leader. clean=false: from outside the ISR, acknowledged records may be lost.",
        ("leader", "previous_leader", "leader_epoch", "partition_epoch", "isr", "clean", "reason"),
        True,
    ),
    "partition_offline": EventDeclaration(
        "No replica that may lead is alive.", ("leader_epoch", "partition_epoch", "isr", "reason"), True
    ),
    "topic_created": EventDeclaration("A topic was created.", ("topic_id", "partitions", "replication_factor")),
    "topic_deleted": EventDeclaration("A topic was deleted.", ("topic_id",)),
    "topic_config_changed": EventDeclaration("Settings of a topic changed.", ("keys",)),
    "cluster_config_changed": EventDeclaration(
        "A new controller made its own default of a setting the cluster's.", ("key", "value", "previous")
    ),
    "partitions_added": EventDeclaration("A topic got more partitions; so many it has now.", ("partitions",)),
    # a replica
    "became_leader": EventDeclaration(
        "This replica leads.", ("leader_epoch", "partition_epoch", "start_offset", "isr", "high_watermark"), True
    ),
    "became_follower": EventDeclaration(
        "This replica follows.",
        ("leader", "leader_epoch", "partition_epoch", "log_end_offset", "high_watermark"),
        True,
    ),
    "replica_stopped": EventDeclaration("This broker no longer holds a replica of the partition.", ("reason",), True),
    "isr_shrunk": EventDeclaration(
        "The leader's shorter ISR was accepted.",
        ("removed", "isr", "leader_epoch", "partition_epoch", "high_watermark", "log_end_offset"),
        True,
    ),
    "isr_expanded": EventDeclaration(
        "The leader's longer ISR was accepted.",
        ("added", "isr", "leader_epoch", "partition_epoch", "high_watermark", "log_end_offset"),
        True,
    ),
    "alter_partition_refused": EventDeclaration(
        "The controller refused an ISR change.", ("error", "isr", "leader_epoch", "partition_epoch"), True
    ),
    "replica_fetch_failed": EventDeclaration(
        "The leader refused fetches, or this log their answers; once per error and offset.", ("leader", "error"), True
    ),
    # the log
    "log_truncated": EventDeclaration(
        "A follower removed records from the end of its log; reason says why.",
        ("from_offset", "to_offset", "records", "reason", "leader_epoch"),
        True,
    ),
    "log_restarted": EventDeclaration(
        "A follower removed all records; its log goes on at the leader's start.",
        ("from_offset", "to_offset", "reason"),
        True,
    ),
    "log_recovered": EventDeclaration(
        "A log was opened. clean=false: what is above the recovery point was checked batch by batch.",
        ("clean", "recovery_point", "log_end_offset", "truncated_bytes"),
        True,
    ),
    "unflushed_lost": EventDeclaration(
        "After an unclean stop the unflushed volume was empty: what was above the log end offset is gone, as after a power "
        "loss. The high watermark is that of the checkpoint, seconds old.",
        ("log_end_offset", "high_watermark"),
        True,
    ),
    "unflushed_volume_full": EventDeclaration(
        "Appends wait for room on the unflushed volume: more is written than its disk takes. Told again only after a second in "
        "which none had to.",
        ("bytes", "limit"),
    ),
    "unflushed_volume_has_room": EventDeclaration("For a second no append had to wait for room.", ("seconds",)),
    "corrupt_batch": EventDeclaration(
        "The leader sent a batch with a wrong checksum or length; once per offset.", ("offset", "error"), True
    ),
    "log_offline": EventDeclaration(
        "The disk refused; the replica leads and follows nothing, and the broker has itself fenced.", ("error",), True
    ),
    "log_online": EventDeclaration("The disk works, and the replica follows again.", (), True),
    "metadata_behind_log": EventDeclaration(
        "The log has a later leader epoch than the cluster's metadata, whose store was put back to an earlier state: the replica "
        "leads and follows nothing, so that what was acknowledged since stays where it is.",
        ("leader_epoch", "log_leader_epoch"),
        True,
    ),
    "log_start_advanced": EventDeclaration("Old records were deleted.", ("from_offset", "to_offset", "reason"), True),
    # groups
    "group_rebalanced": EventDeclaration("A group has a new generation.", ("group", "generation", "members", "reason")),
    "group_loaded": EventDeclaration(
        "A coordinator read its groups from the log.", ("partitions", "records", "seconds"), True
    ),
    "group_deleted": EventDeclaration("A group is gone.", ("group", "reason")),
    # tests of clients (minikafka.test.hooks)
    "hook_set": EventDeclaration("A hook was set; topic and partition are those that it is for.", ("reason",)),
    "hooks_cleared": EventDeclaration("Hooks were cleared; records: how many.", ("records",)),
    "error_injected": EventDeclaration(
        "A client's request of the API `component` was answered with an injected error, and not carried out.",
        ("component", "error"),
    ),
    "produce_acknowledged": EventDeclaration(
        "A batch is about to be acknowledged; offset is its first record's.", ("offset", "records", "crc", "acks"), True
    ),
}

_PYTHON: Mapping[str, Callable[[Any], bool]] = {
    "int": lambda v: type(v) is int,
    "float": lambda v: type(v) in (int, float),
    "str": lambda v: type(v) is str,
    "bool": lambda v: type(v) is bool,
    "ints": lambda v: type(v) is list and all(type(i) is int for i in v),
    "strs": lambda v: type(v) is list and all(type(i) is str for i in v),
}


class EventLog:
    """Writes events to a file, and to standard output when ``stdout``. Never raises for a full or broken disk.

    The file and the one before it have ``bytes_max`` together (:class:`EventFile`).
    ``counts`` is how often each event was emitted, ``dropped`` how many could not be written to the file, or to standard
    output.
    """

    __slots__ = ("_broker_id", "_clock", "_file", "_stdout", "counts", "dropped")

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        broker_id: int,
        clock: Callable[[], float] = time.time,
        stdout: bool = False,
        bytes_max: int = BYTES_DEFAULT,
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._stdout = StandardOutput() if stdout and sys.__stdout__ is not None else None
        self.counts: dict[str, int] = {}
        self.dropped = 0
        self._file = EventFile(path, bytes_max) if path is not None else None

    def emit(self, event: str, *, topic: str | None = None, partition: int | None = None, **fields: Any) -> None:
        """Record that ``event`` happened now. An undeclared event or field is a bug and fails an assertion."""
        declared = EVENTS.get(event)
        assert declared is not None, f"undeclared event {event}"
        assert set(fields) <= set(declared.fields), (
            f"event {event}: undeclared fields {sorted(set(fields) - set(declared.fields))}"
        )
        assert not declared.partition or (topic is not None and partition is not None), f"event {event}: no partition"
        self.counts[event] = self.counts.get(event, 0) + 1
        if self._file is None and self._stdout is None:
            return
        data = self._line(event, declared, topic, partition, fields)
        if self._file is not None:
            self._append(self._file, data)
        if self._stdout is not None:
            self.dropped += not self._stdout.write(data)

    def _line(
        self, event: str, declared: EventDeclaration, topic: str | None, partition: int | None, fields: dict[str, Any]
    ) -> bytes:
        line = json.dumps(
            {
                "time": round(self._clock(), 6),
                "broker": self._broker_id,
                "event": event,
                "topic": topic,
                "partition": partition,
                "fields": {name: _plain(fields.get(name)) for name in declared.fields},
            },
            separators=(",", ":"),
        )
        return line.encode() + b"\n"

    def close(self) -> None:
        """Close the file, and let standard output go out; later events are only counted."""
        if self._stdout is not None:
            self._stdout.close()
            self._stdout = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, file: EventFile, data: bytes) -> None:
        if not file.has_room(len(data)):
            lost = file.begin_anew()
            if lost is None:
                self.dropped += 1
                return
            self.counts[BEGUN_ANEW] = self.counts.get(BEGUN_ANEW, 0) + 1
            file.write(self._line(BEGUN_ANEW, EVENTS[BEGUN_ANEW], None, None, {"bytes": lost}))
        self.dropped += not file.write(data)


def _plain(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, int) and type(value) not in (int, bool):
        return int(value)  # IntEnum
    return value


def problem(record: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a decoded line by this schema, or None. For tests and for readers of foreign files."""
    if set(record) != {"time", "broker", "event", "topic", "partition", "fields"}:
        return f"keys are {sorted(record)}"
    event = EVENTS.get(record["event"])
    if event is None:
        return f"undeclared event {record['event']!r}"
    if type(record["broker"]) is not int or type(record["time"]) not in (int, float):
        return "broker or time is no number"
    if event.partition and (type(record["topic"]) is not str or type(record["partition"]) is not int):
        return f"{record['event']} needs topic and partition"
    fields = record["fields"]
    if set(fields) != set(event.fields):
        return f"{record['event']} has fields {sorted(fields)}, not {sorted(event.fields)}"
    for name, value in fields.items():
        if value is not None and not _PYTHON[FIELDS[name].type](value):
            return f"{record['event']}: {name}={value!r} is no {FIELDS[name].type}"
    return None
