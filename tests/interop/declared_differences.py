"""Differences between MiniKafka's answers and Apache Kafka's that are meant; docs/limits.md tells people of them."""

from __future__ import annotations

import re
from typing import NamedTuple


class Declared(NamedTuple):
    """One difference: ``title`` and ``path`` are patterns (``re.search``), ``ours`` and ``theirs`` what is answered."""

    why: str
    title: str
    path: str
    ours: str = ""
    theirs: str = ""


DECLARED = (
    Declared(
        "messages have their own words; ours has one where Kafka has none", "", "error_message$", "a text", "no text"
    ),
    Declared(
        "FindCoordinator tells no message with success", "^FindCoordinator", "error_message$", "no text", "a text"
    ),
    Declared(
        "DescribeConfigs tells no message with success", "^DescribeConfigs", "error_message$", "no text", "a text"
    ),
    Declared("no ACLs: authorized operations are not reported", "", "authorized_operations$"),
    Declared("versions that MiniKafka does not have, and features that it does not report", "^ApiVersions", ""),
    Declared("no transactions", "^FindCoordinator of kind 1", r"(error_code|node_id|error_message)$"),
    Declared(
        "groups, client metrics and broker loggers have no settings", "^DescribeConfigs of (8|16|32)", r"configs\["
    ),
    Declared(
        "Kafka has settings that MiniKafka does not know, and the other way round",
        "^DescribeConfigs of (2|4)",
        r"configs\[",
    ),
    Declared("each has settings that the other has not", "^(DescribeConfigs of [24]|CreateTopics)", r"configs\["),
    Declared("Kafka never answers", "^AlterConfigs of .*resources twice", "^$", theirs="TimeoutError: timed out"),
    Declared("Kafka never answers", "^JoinGroup: protocols twice", ""),
    Declared(
        "an operation that does not exist", "^IncrementalAlterConfigs.*config_operation", "error_code$", "42", "-1"
    ),
    Declared("an operation that does not exist", "^IncrementalAlterConfigs.*config_operation", "error_message$"),
    Declared(
        "a Fetch names a partition as often as it likes", "^Fetch.*(topics|partitions) twice", r"responses\[.* #2\]"
    ),
    Declared("a Fetch names a topic without partitions", "^Fetch.*partitions empty", r"responses\["),
    Declared("isolation levels that are none count as read_uncommitted", "^(Fetch|ListOffsets).*isolation_level", ""),
    Declared("a negative size counts as 0", "^Fetch.*max_bytes -1", ""),
    Declared("a client that calls itself a replica", "^Fetch.*replica_(id|state)", ""),
    Declared("no fetch sessions", "^Fetch.*session_", ""),
    Declared("the same mistake made twice is told once", "^DeleteTopics by id and name: topics twice", " #2"),
)


def reason(title: str, path: str, ours: object, theirs: object) -> str:
    """Why a difference is meant; empty when nobody has declared it."""
    for each in DECLARED:
        here = re.search(each.title, title) and re.search(each.path, path)
        if here and each.ours in ("", str(ours)) and each.theirs in ("", str(theirs)):
            return each.why
    return ""
