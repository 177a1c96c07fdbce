"""Tables, JSON, and the parsing of what brokers say about their replicas."""

import argparse
import json

import pytest
from minikafka.cli import consume, produce, status
from minikafka.cli.groups import PartitionOffset
from minikafka.cli.metadata import BrokerMetadata, ClusterMetadata, PartitionMetadata, TopicMetadata
from minikafka.cli.output import print_json, print_table, shown_ids
from minikafka.cli.scrape import Page, Replica, parse
from minikafka.protocol.errors import ErrorCode

PAGE = """\
# HELP minikafka_log_end_offset Offset of the next record (LEO).
# TYPE minikafka_log_end_offset gauge
minikafka_log_end_offset{topic="bank",partition="0"} 12
minikafka_log_end_offset{topic="bank",partition="1"} 1.5e+06
minikafka_high_watermark{partition="0",topic="bank"} 11.0
minikafka_log_flushed_offset{topic="bank",partition="0"} 7
minikafka_log_start_offset{topic="bank",partition="0"} 3
minikafka_leader_epoch{topic="bank",partition="0"} 2
minikafka_partition_epoch{topic="bank",partition="0"} 9
minikafka_replica_role{topic="bank",partition="0"} 2
minikafka_bytes_in_total 77
minikafka_request_duration_seconds_bucket{api="Fetch",le="0.1"} 5
"""


def test_the_page_of_a_broker() -> None:
    assert parse(PAGE) == {
        ("bank", 0): Replica(start=3, leo=12, hw=11, flushed=7, leader_epoch=2, partition_epoch=9, role=2),
        ("bank", 1): Replica(leo=1_500_000),
    }


def partition(number: int = 0, leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> PartitionMetadata:
    return PartitionMetadata(number, ErrorCode.NONE, leader, 2, [1, 2, 3][: max(2, len(isr))], list(isr), [])


def metadata(*partitions: PartitionMetadata, internal: bool = False) -> ClusterMetadata:
    brokers = [BrokerMetadata(1, "127.0.0.1", 9001, "a"), BrokerMetadata(2, "127.0.0.1", 9002, None)]
    return ClusterMetadata("cid", 2, brokers, [TopicMetadata("bank", ErrorCode.NONE, internal, list(partitions))])


PAGES = {1: Page(9101, parse(PAGE), None), 2: Page(9102, {}, "metrics port 9102: timed out")}


def test_status_as_json() -> None:
    value = status._as_json(metadata(partition()), PAGES)
    assert value["controller"] == 2
    assert value["healthy"] is True
    assert [broker["error"] for broker in value["brokers"]] == [None, "metrics port 9102: timed out"]
    (first,) = value["partitions"]
    assert (first["leader"], first["leader_epoch"], first["partition_epoch"]) == (1, 2, 9)
    leader, follower = first["replicas"]
    assert leader == {
        "broker": 1,
        "role": "leader",
        "in_isr": True,
        "leo": 12,
        "hw": 11,
        "flushed": 7,
        "log_start_offset": 3,
        "leader_epoch": 2,
    }
    assert (follower["broker"], follower["leo"]) == (2, None)


def test_status_names_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    ill = metadata(partition(0, leader=-1, isr=(3,)), partition(1, isr=(1,)))
    status._print(ill, PAGES, internal=False)
    text = capsys.readouterr().out
    assert "unhealthy: 1 offline, 2 under-replicated of 2" in text
    assert "bank-0" in text
    assert "none" in text
    assert "out of sync" in text
    assert not status._healthy(ill)


def test_a_broker_that_is_only_known_from_assignments_is_down(capsys: pytest.CaptureFixture[str]) -> None:
    gone = metadata(PartitionMetadata(0, ErrorCode.NONE, 1, 2, [1, 3], [1], [3]))
    status._print(gone, PAGES, internal=False)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:1] == ["3"] and "down" in line for line in lines)
    assert status._as_json(gone, PAGES)["brokers"][2]["alive"] is False


def test_a_fenced_broker_is_down_only_where_nothing_answers(capsys: pytest.CaptureFixture[str]) -> None:
    """One that is cut off from the others lives: where it is, and what its own log has, is to be seen."""
    fenced = [BrokerMetadata(3, "127.0.0.1", 9003, None), BrokerMetadata(4, "127.0.0.1", 9004, None)]
    seen = metadata(partition())._replace(fenced=fenced)
    pages = {**PAGES, 3: Page(9103, {}, None), 4: Page(None, {}, "Connection refused", refused=True)}
    status._print(seen, pages, internal=False)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["3", "127.0.0.1:9003", "-", "9103", "fenced"] in rows
    assert ["4", "-", "-", "-", "down"] in rows
    told = status._as_json(seen, pages)["brokers"][2:]
    assert [(each["alive"], each["fenced"]) for each in told] == [(False, True), (False, False)]


def test_internal_topics_are_counted_apart_and_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    internal = metadata(partition(isr=(1,)), internal=True)
    status._print(internal, PAGES, internal=False)
    text = capsys.readouterr().out
    assert "bank-0" not in text
    assert "not shown: bank (--internal): 0 offline, 1 under-replicated of 1" in text
    assert "unhealthy: what is not shown; else 0 partition(s), all in sync" in text
    orders = metadata(partition(), partition(1, isr=(1,))).topics[0]._replace(name="orders")
    status._print(internal._replace(topics=[*internal.topics, orders]), PAGES, internal=False)
    assert "unhealthy: 0 offline, 1 under-replicated of 2" in capsys.readouterr().out


def test_tables_show_none_as_a_dash_and_are_not_cut_off_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "#count"), [("x" * 150, 1), ("y", None)])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert any(line.startswith("x" * 150) and line.endswith(" 1") for line in lines)
    assert lines[-1].startswith("y")
    assert lines[-1].endswith("-")


def test_json_is_one_line_of_unicode(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": "ä\n", "b": [1, None]})
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == {"a": "ä\n", "b": [1, None]}
    assert "ä" in out


def test_ids_and_lag() -> None:
    assert shown_ids([3, 1]) == "3,1"
    assert PartitionOffset("t", 0, 3, 10).lag == 7
    assert PartitionOffset("t", 0, None, 10).lag is None
    assert PartitionOffset("t", 0, 12, 10).lag == 0  # committed before a truncation


class Message:
    def __init__(self, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]] | None) -> None:
        self._key, self._value, self._headers = key, value, headers

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 1

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return (1, 1234)

    def leader_epoch(self) -> int:
        return 3

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self._headers


def test_records_as_json() -> None:
    line = consume._json_line(Message(b"k", b"\xff\x00", [("h", b"v"), ("h", None)]))
    assert json.loads(line) == {
        "topic": "t",
        "partition": 1,
        "offset": 7,
        "timestamp": 1234,
        "timestamp_type": "CreateTime",
        "leader_epoch": 3,
        "key": "k",
        "value": None,
        "value_base64": "/wA=",
        "headers": [{"key": "h", "value": "v"}, {"key": "h", "value": None}],
    }


def test_records_as_text() -> None:
    assert consume._text_line(None, "")(Message(b"k", b"v", None)) == b"v\n"
    assert consume._text_line("=", "NULL")(Message(b"k", None, None)) == b"k=NULL\n"
    assert consume._text_line("=", "")(Message(None, b"\xff", None)) == b"=\xff\n"


class Error:
    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        return self._name

    def str(self) -> str:
        return "text"


class Delivered(Message):
    def __init__(self, offset: int) -> None:
        super().__init__(None, b"", None)
        self._offset = offset

    def offset(self) -> int:
        return self._offset


def test_deliveries_keep_unknown_outcomes_apart(capsys: pytest.CaptureFixture[str]) -> None:
    deliveries = produce._Deliveries("all")
    for offset in (5, 3, 9):
        deliveries.report(None, Delivered(offset))
    for name in ("NOT_ENOUGH_REPLICAS", "_MSG_TIMED_OUT", "_MSG_TIMED_OUT"):
        deliveries.report(Error(name), None)
    assert (deliveries.acknowledged, deliveries.failed, deliveries.unknown) == (3, 1, 2)
    assert deliveries.partitions == {1: [3, 3, 9]}
    assert deliveries.errors == {"NOT_ENOUGH_REPLICAS": 1, "MSG_TIMED_OUT": 2}
    assert capsys.readouterr().err.count("\n") == 2  # each kind of error once


def test_without_acks_nothing_counts_as_acknowledged() -> None:
    deliveries = produce._Deliveries("0")
    deliveries.report(None, Delivered(-1))
    assert (deliveries.acknowledged, deliveries.unacknowledged, deliveries.partitions) == (0, 1, {})


def test_report_without_json_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    produce._report(argparse.Namespace(json=False, acks="all"), "t", 0, produce._Deliveries("all"), 0.1)
    assert capsys.readouterr() == ("", "t: nothing to send\n")
