"""Differences between MiniKafka's answers and Apache Kafka's that are meant; docs/reference/limits.md tells people of them."""

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
    Declared("consumers are served by the leader", "^Fetch at a follower", r"responses\["),
    Declared("no list of aborted transactions with an error", "^Fetch", "aborted_transactions$", "None", "a list"),
    Declared(
        "the leader is named with more errors", "^Fetch.*current_leader_epoch 99", r"(current_leader\.|node_endpoints)"
    ),
    Declared("consumers are served by the leader, which is named", "^Fetch at a follower", "node_endpoints"),
    Declared("the first batch comes whole, and batches say when they were written", "^Fetch.*bytes 99", "records$"),
    Declared(
        "a topic asked for twice is answered twice; Kafka joins the two", "^Fetch.*topics twice", r"responses\[1\]$"
    ),
    Declared("which broker coordinates a group is where the cluster has put it", "^FindCoordinator", "node_id$"),
    Declared(
        "the one coordinates what the other does not", "^DescribeGroups", r"nobody-made-this.*(error_|group_state)"
    ),
    Declared(
        "how far the log reaches is told with a diverging epoch, too",
        "^Fetch.*last_fetched_epoch 99",
        "(high_watermark|last_stable_offset|log_start_offset)$",
        theirs="-1",
    ),
    Declared(
        "neither a name nor an id is INVALID_REQUEST", "^Metadata.*(name|topic_id) null", r"^(error_code$|topics\[)"
    ),
    Declared(
        "no Raft log: offsets are revisions of the store",
        "^DescribeQuorum",
        "(leader_id|leader_epoch|offset|high_watermark|timestamp)$",
    ),
    Declared("each has names of its own for listeners", "^DescribeQuorum", r"nodes\[.*listeners\["),
    Declared("topics that are not there are answered as often as asked", "^OffsetCommit by a strange id.*twice", ""),
    Declared("a topic without partitions is not answered", "^OffsetCommit by a strange id.*partitions empty", ""),
    Declared("an empty name is that of no topic", "^DescribeTopicPartitions.*name ''", "error_code$", "3", "-1"),
    Declared("an empty name is that of no topic", "^DescribeTopicPartitions.*name ''", "authorized_operations$"),
    Declared("what comes before the cursor is not answered", "^DescribeTopicPartitions from.*name ''", r"topics\[\]"),
    Declared("no transactions", "^Produce, .*transactional id", ""),
    Declared(
        "each batch of a partition that is named twice is written and answered",
        "^Produce(: .* twice|, partly good)",
        "",
    ),
    Declared("a Produce names a topic without partitions", "^Produce: .*partition_data empty", r"responses\["),
    Declared("Kafka never answers", "^Produce: .*records null", ""),
    Declared(
        "what Kafka did not expect is UNKNOWN_SERVER_ERROR there, and INVALID_RECORD here",
        "^Produce of (largest length|codec [567]|.*: (garbage|nothing|cut|rest|twice|offset deltas .*)|.* frame: .*)$",
        "error_code$",
        "87",
        "-1",
    ),
    Declared(
        "before version 7 Kafka meets a codec that is none where it looks for zstd, ahead of the log",
        "^Produce of codec",
        "log_start_offset$",
        "0",
        "-1",
    ),
    Declared("a group without a name is listed by its coordinator, whichever that is", "^ListGroups", r"^groups\[\]"),
    Declared("offset deltas are 0, 1, 2, ...", "^Produce of .*: offset deltas", ""),
    Declared("nothing follows the compressed records", "^Produce of (gzip|lz4.*): (rest|twice)$", ""),
    Declared(
        "what a frame says counts, and nothing follows it",
        "^Produce of (gzip frame: (reserved|zeros)|snappy frame: half|zstd frame: a second"
        "|lz4 frame: (wrong content|an end mark|a skippable frame last))",
        "",
    ),
    Declared(
        "a length of four gigabytes is too large",
        "^Produce of snappy frame: raw, of a length",
        "error_code$",
        "10",
        "-1",
    ),
    Declared(
        "what is too large tells no log start",
        "^Produce of snappy frame: raw, of a length",
        "log_start_offset$",
        "-1",
        "0",
    ),
    Declared("the length of a record counts in compressed batches, too", "^Produce of .*: record length", ""),
    Declared("the same mistake made twice is told once", "^DeleteTopics by id and name: topics twice", " #2"),
)


def reason(title: str, path: str, ours: object, theirs: object) -> str:
    """Why a difference is meant; empty when nobody has declared it."""
    for each in DECLARED:
        here = re.search(each.title, title) and re.search(each.path, path)
        if here and each.ours in ("", str(ours)) and each.theirs in ("", str(theirs)):
            return each.why
    return ""
