"""`minikafka dump-log FILE|DIR`: batches, epochs and CRC verdicts of a segment or a partition's directory.

Reads files only, so it works on a stopped broker, on a copy, and on a running one (whose last batch may just be
arriving). Exit codes: 0 all sound, 1 something is damaged, 2 the path is not a log.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import UTC, datetime
from typing import Any

from minikafka.command import exits
from minikafka.log.filesystem import RealFileSystem
from minikafka.log.inspection import (
    BatchReport,
    LogReport,
    NotALog,
    SegmentReport,
    inspect_log,
    inspect_segment,
    read_segment,
)
from minikafka.protocol.compression import Codec, CorruptCompression, UnsupportedCompression
from minikafka.protocol.records import MalformedRecords, Record, parse_records

VALUE_BYTES_SHOWN = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments on a (sub)parser."""
    parser.add_argument("path", metavar="FILE|DIR", help="a segment (*.log), or the directory of one partition")
    parser.add_argument("--records", action="store_true", help="also print the records of each batch")
    parser.add_argument("--summary", action="store_true", help="leave the batches out, print files and problems only")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")


def run(args: argparse.Namespace) -> int:
    """Print the report; returns the exit code."""
    path: str = args.path.rstrip("/") or "/"
    fs = RealFileSystem()
    try:
        if os.path.isdir(path):
            report = inspect_log(fs, path)
        else:
            report = LogReport(path, [inspect_segment(fs, path)])
        document = _document(fs, report, args)
    except NotALog as error:
        print(f"dump-log: {error}", file=sys.stderr)
        return exits.BAD_INPUT
    except OSError as error:
        print(f"dump-log: {path}: {error.strerror or error}", file=sys.stderr)
        return exits.BAD_INPUT
    if args.json:
        print(json.dumps(document, indent=2))
    else:
        _print(document)
    return exits.NO if report.damaged else exits.OK


def _document(fs: RealFileSystem, report: LogReport, args: argparse.Namespace) -> dict[str, Any]:
    return {
        "path": report.path,
        "damaged": report.damaged,
        "topic_id": report.topic_id,
        "epochs": [entry._asdict() for entry in report.epochs],
        "segments": [_segment(fs, segment, args) for segment in report.segments],
        "problems": report.problems,
    }


def _segment(fs: RealFileSystem, segment: SegmentReport, args: argparse.Namespace) -> dict[str, Any]:
    document: dict[str, Any] = {
        "path": segment.path,
        "base_offset": segment.base_offset,
        "next_offset": segment.next_offset,
        "size": segment.size,
        "valid_bytes": segment.valid_bytes,
        "batch_count": segment.batches,
        "record_count": segment.records,
        "max_timestamp": segment.max_timestamp,
        "problems": segment.problems,
        "gaps": segment.gaps,
    }
    if not args.summary:
        document["batches"] = [_batch(batch, args.records) for batch in read_segment(fs, segment.path)]
    return document


def _batch(batch: BatchReport, with_records: bool) -> dict[str, Any]:
    header = batch.header
    document: dict[str, Any] = {
        "position": batch.position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records_count": header.records_count,
        "leader_epoch": header.partition_leader_epoch,
        "max_timestamp": header.max_timestamp,
        "timestamp_type": "LogAppendTime" if header.log_append_time else "CreateTime",
        "codec": Codec(header.codec).name.lower() if header.codec <= Codec.ZSTD else str(header.codec),
        "transactional": header.transactional,
        "control": header.control,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "crc": header.crc,
        "problem": batch.problem,
    }
    if with_records and batch.problem is None:
        try:
            document["records"] = [_record(record) for record in parse_records(batch.data)]
        except (MalformedRecords, UnsupportedCompression, CorruptCompression) as error:
            document["records_unreadable"] = str(error)
    return document


def _record(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


def _print(document: dict[str, Any]) -> None:
    if document["epochs"]:
        print("leader epochs: " + ", ".join(f"{e['epoch']} from {e['start_offset']}" for e in document["epochs"]))
    for segment in document["segments"]:
        print(
            f"{segment['path']}: offsets {segment['base_offset']}..{segment['next_offset'] - 1}, "
            f"{segment['size']} bytes, {segment['batch_count']} batches, {segment['record_count']} records"
        )
        for batch in segment.get("batches", ()):
            _print_batch(batch)
        for gap in segment["gaps"]:
            print(f"  gap: {gap} (what compaction leaves; damage in a topic that is not compacted)")
        for problem in segment["problems"]:
            print(f"  DAMAGED: {problem}")
        if segment["problems"]:
            print(f"  recovery would keep {segment['valid_bytes']} of {segment['size']} bytes")
    for problem in document["problems"]:
        print(f"DAMAGED: {problem}")
    print("damaged" if document["damaged"] else "ok: every CRC matches")


def _print_batch(batch: dict[str, Any]) -> None:
    marks = [mark for mark in ("transactional", "control") if batch[mark]]
    if batch["codec"] != "none":
        marks.append(batch["codec"])
    if batch["producer_id"] >= 0:
        marks.append(f"producer {batch['producer_id']}/{batch['producer_epoch']} sequence {batch['base_sequence']}")
    print(
        f"  @{batch['position']} {batch['base_offset']}..{batch['last_offset']} epoch {batch['leader_epoch']} "
        f"{batch['size']} bytes {_time(batch['max_timestamp'])} {' '.join([*marks, batch['problem'] or 'CRC ok'])}"
    )
    for record in batch.get("records", ()):
        value = record["value"]
        if value is not None and len(value) > VALUE_BYTES_SHOWN:
            value = value[:VALUE_BYTES_SHOWN] + "..."
        print(f"    {record['offset']} {_time(record['timestamp'])} key={record['key']!r} value={value!r}")
    if "records_unreadable" in batch:
        print(f"    records cannot be read: {batch['records_unreadable']}")


def _time(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
