"""Lines that no tool of this project writes: neither judge may guess what they mean, and both must refuse the same ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.unit.verdict_cases.builder import FINAL, Case, Edit, Line, Run, batch
from tests.unit.verdict_cases.honest import healthy

HISTORY, REPLICAS, JOURNAL = "history.jsonl", "replicas.jsonl", "journal.jsonl"


def good() -> Run:
    return Run("all").acked_many(4).final_many(0, 4).topic().alike(4)


def text(name: str, old: str, new: str) -> Edit:
    """Put other text in the place of this, everywhere in a file."""

    def edit(folder: Path) -> None:
        path = folder / name
        before = path.read_text(encoding="utf-8")
        assert old in before
        path.write_text(before.replace(old, new), encoding="utf-8")

    return edit


def raw(name: str, change: Callable[[bytes], bytes]) -> Edit:
    """Change a file's bytes."""

    def edit(folder: Path) -> None:
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return edit


def lines(name: str, change: Callable[[list[Line]], list[Line]]) -> Edit:
    """Change a file's lines."""

    def edit(folder: Path) -> None:
        path = folder / name
        told = change([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])
        path.write_text("".join(json.dumps(line) + "\n" for line in told), encoding="utf-8")

    return edit


def third(about: str, **fields: object) -> Edit:
    """Give the lines of this kind about broker 3 (its batch 1; of a topic or a start, all) other fields."""

    def is_it(line: Line) -> bool:
        wanted: bool = line["kind"] == about and line.get("broker", 3) == 3 and line.get("index", 1) == 1
        return wanted

    return lines(REPLICAS, lambda told: [{**line, **fields} if is_it(line) else line for line in told])


def claim(line: str) -> Edit:
    """A journal of this line alone."""
    return raw(JOURNAL, lambda told: line.encode() + b"\n")


def claims(*told: object, **more: object) -> Edit:
    return claim(json.dumps({"time": 1.0, "kind": "claims", "claims": told, "problems": [], **more}))


def error(name: str, *edits: Edit, of: Callable[[], Run] = good) -> Case:
    def make() -> Run:
        run = of()
        for edit in edits:
            run.changed(edit)
        return run

    return Case(name, make, "Error")


def _unacknowledged_by_a_copy() -> Run:
    """The acknowledgement of a lost record is taken out, and another line is there twice: as many lines as before."""
    run = Run().acked_many(3).final_many(0, 2)
    run.history[5] = run.history[4]
    return run


def _no_topic() -> Run:
    run = Run().acked("a", 0).line(1, "send", "invoke", topic=None, value="b")
    return run.line(1, "send", "ok", topic=None, value="b", offset=1).final(["a"])


def _read_without_value() -> Run:
    run = Run().acked("a", 0).assign(0, FINAL).poll([(0, "a")], process=FINAL)
    return run.line(FINAL, "poll", "ok", offset=1, value=None).read_to(2, FINAL)


def _empty_with_an_end() -> Run:
    run = Run().acked_many(4).final_many(0, 4).topic()
    for broker in (1, 2, 3):
        run.replica(broker, [], end=4)
    return run


def _two_histories() -> Run:
    """Another run's lines behind those of this one."""
    run, other = Run().acked_many(3).final_many(0, 3), Run().acked("w0", 0, 2).final(["w0"])
    run.history += other.history
    return run


def _elsewhere(**where: object) -> Run:
    run = Run().acked("a", 0).invoke("b").line(1, "send", "ok", value="b", offset=1, **where)
    return run.final(["a", "b"]).final(["b"], partition=1)


def _stray_batch() -> Run:
    run = good()
    run.replicas.append({"kind": "batch", "topic": "t", "partition": 0, "broker": 4, "index": 0, **batch(0)})
    return run


_FIELDS = (
    ("time", "1003.0", ("NaN", "Infinity", "-5", "1e12", '"12"', "true", "null")),
    ("process", "1", ("1.0", "1.6", '"1"', "true", "1e0", "null", "9223372036854775808")),
    ("offset", "1", ("1.0", "1.4", '"1"', "-3", "9223372036854775808")),
    ("partition", "0", ("-1", "0.4", "2147483648")),
    ("value", '"v1"', ("5", '{"a": 1}', "true")),
    ("topic", '"t"', ("7",)),
    ("seq", "3", ("-3", "3.0", '"3"')),
    ("settings", "{", ('[1], "settingz": {', '"x", "settingz": {')),
    ("idempotence", "false", ('"true"', '"foo; bar"', "1")),
)
_NULLS = (
    ("replica", ("start", "end", "batches", "broker", "partition", "in_sync")),
    (
        "batch",
        ("index", "base_offset", "last_offset", "leader_epoch", "crc", "crc_right", "producer_id", "base_sequence"),
    ),
    ("topic", ("partitions", "replication_factor")),
)
_GAP = {"name": "c", "type": "AckGapAtMost"}
_LOSS = {"name": "c", "type": "NoAcknowledgedRecordLost"}

CASES = (
    *(
        error(f"{field}-{number}-of-a-line", text(HISTORY, f'"{field}": {old}', f'"{field}": {new}'))
        for field, old, news in _FIELDS
        for number, new in enumerate(news)
    ),
    *(error(f"{kind}-without-{field}", third(kind, **{field: None})) for kind, fields in _NULLS for field in fields),
    error(
        "an-acknowledgement-at-offset-minus-one", of=lambda: Run().acked("a", 0).invoke("b").ok("b", -1).final(["a"])
    ),
    error("a-send-without-a-topic", of=_no_topic),
    error("a-read-without-a-value", of=_read_without_value),
    error("a-line-is-there-twice-in-the-place-of-another", of=_unacknowledged_by_a_copy),
    error("a-line-is-there-twice", lines(HISTORY, lambda told: [*told, told[-2]])),
    error("two-histories-in-one-file", of=_two_histories),
    error(
        "some-lines-have-no-number",
        lines(
            HISTORY, lambda told: [{k: v for k, v in line.items() if line["seq"] % 2 or k != "seq"} for line in told]
        ),
    ),
    error("acknowledged-in-another-partition-than-asked", of=lambda: _elsewhere(partition=1)),
    error("acknowledged-in-another-topic-than-asked", of=lambda: _elsewhere(topic="u")),
    error("two-objects-on-a-line", raw(HISTORY, lambda told: told.replace(b"}\n", b"}", 1))),
    error("words-behind-a-line", text(HISTORY, '"seq": 3}', '"seq": 3} xyz')),
    error("a-field-is-given-twice", text(HISTORY, '"seq": 3}', '"seq": 3, "type": "fail"}')),
    error("an-array-for-a-line", raw(HISTORY, lambda told: b"[1]\n" + told)),
    error("a-line-of-zeros", raw(HISTORY, lambda told: told + bytes(50) + b"\n")),
    error("half-a-pair-of-surrogates", text(HISTORY, '"v1"', '"a\\ud800b"')),
    error("the-second-half-of-a-pair", text(HISTORY, '"v1"', '"\\\\\\uDE00"')),
    error("half-a-pair-in-a-field-that-nobody-reads", text(HISTORY, '"seq": 3}', '"seq": 3, "more": ["\\ud83d"]}')),
    error("half-a-pair-in-the-replicas", third("replica", damage="\ud83d")),
    error("bytes-that-are-no-text", raw(HISTORY, lambda told: told.replace(b'"v1"', b'"a\xffb"'))),
    error("garbage-among-the-replicas", raw(REPLICAS, lambda told: told + b"garbage\n")),
    error("garbage-in-the-journal", raw(JOURNAL, lambda told: b"garbage\n" + told)),
    error("two-lines-of-the-journal-in-one", raw(JOURNAL, lambda told: b'{"time":1.0,"kind":"no' + told)),
    error("no-history", lambda folder: (folder / HISTORY).unlink()),
    error("a-claim-of-an-unknown-type", claims({"name": "c", "type": "NoSuchClaim"})),
    error("a-since-that-is-text", claims({**_LOSS, "since": "12"})),
    error(
        "a-since-that-is-no-number",
        claim(
            '{"time":1.0,"kind":"claims","claims":[{"name":"c",'
            '"type":"NoAcknowledgedRecordLost","since":NaN}],"problems":[]}'
        ),
    ),
    error("a-since-of-a-gap", claims({**_GAP, "limit_millis": 1, "since": "never"})),
    error("a-limit-that-is-text", claims({**_GAP, "limit_millis": "5"})),
    error("a-limit-that-is-missing", claims(_GAP)),
    error("claims-that-are-no-list", claims(claims=5)),
    error("a-replicas-end-is-not-where-its-batches-end", of=_empty_with_an_end),
    error("a-batch-of-a-replica-that-is-not-told-of", of=_stray_batch),
    error("a-batch-is-told-of-twice", third("batch", index=2)),
    error("a-batch-beyond-the-last", third("batch", index=7)),
    error("a-topic-is-told-of-twice", of=lambda: good().topic(replication_factor=1)),
    error("a-start-without-a-time", third("start", time=None), of=lambda: good().start_moved(0, broker=3)),
    error("a-start-without-an-offset", of=lambda: good().start_moved(None, "retention")),
    error("a-kind-of-line-that-is-none", third("topic", kind="story")),
    error("in-sync-as-text", third("replica", in_sync="true")),
    *(
        Case(f"a-value-with-{name}", lambda value=value: good().changed(text(HISTORY, '"v1"', value)), "Passed")  # type: ignore[misc]
        for name, value in (
            ("an-escaped-zero", '"a\\u0000b"'),
            ("a-pair-of-surrogates", '"\\ud83d\\ude00"'),
            ("what-looks-like-half-a-pair", '"\\\\ud800"'),
            ("separators-of-lines", '"a\u2028b\u0085c\\rd"'),
            ("letters-beyond-ascii", '"\u00e9e\u0301\U0001f600"'),
            ("what-looks-like-fields", json.dumps('"value": 5, {"topic": 7}')),
            ("four-million-letters", '"' + "x" * 4_200_000 + '"'),
        )
    ),
    Case(
        "lines-end-as-on-windows",
        lambda: healthy().changed(raw(HISTORY, lambda t: t.replace(b"\n", b"\r\n"))),
        "Passed",
    ),
    Case(
        "zeros-behind-the-last-line", lambda: healthy().changed(raw(HISTORY, lambda told: told + bytes(50))), "Passed"
    ),
)
