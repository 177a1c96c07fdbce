"""The JSON schema of `report.json`: every key of the document, declared once; `make docs` writes it to docs/reference.

Keys of a version are only ever added to, so the published schema allows keys that it does not know; `schema(closed=True)` does
not, and the tests hold every report they make to it.
"""

from __future__ import annotations

from typing import Any

from minikafka_analytics.behaviour.isr import WITHIN_SECONDS
from minikafka_analytics.behaviour.lag import FOLLOWER, HIGH_WATERMARK
from minikafka_analytics.behaviour.scrape_gaps import SEEN_BY
from minikafka_analytics.behaviour.usage import MEASURES
from minikafka_analytics.landing.schemas import SCHEMA_VERSION
from minikafka_analytics.report.columns import (
    Schema,
    either,
    flag,
    many,
    maybe,
    moment,
    named,
    number,
    record,
    text,
    whole,
)
from minikafka_analytics.report.figures import FIGURES

PLACE = {"topic": text(), "partition": whole()}
BLAMED = {
    "fault": maybe(whole("number of the fault that preceded it")),
    "after_fault": maybe(number("seconds since that fault began")),
    "concerned": many(maybe(whole()), "brokers that it is about"),
}
COUNTS = {
    "sent": whole("records that clients sent"),
    "acknowledged": whole(),
    "failed": whole("sends that were refused"),
    "unknown": whole("sends that ended without an answer"),
    "unknown_but_there": whole("of these, records that were read"),
    "read": whole("acknowledged records that the final read found"),
    "lost": whole("by the rules of docs/reference/verdicts.md"),
    "accepted_loss": whole("losses that the scenario makes on purpose"),
    "deleted": whole("by retention or by request"),
    "undecided": whole("acknowledged records that no reader can tell of"),
    "acked": whole("an older name of `acknowledged`"),
    "unknown_present": whole("an older name of `unknown_but_there`"),
    "expired": whole("an older name of `deleted`"),
}
LATENCY = {name: maybe(number()) for name in ("p50", "p95", "p99", "p999", "max")}
RATES = {"acked": whole(), "failed": whole(), "unknown": whole(), **LATENCY}
PERCENTILES = record(
    "a time over the faults that have it, each value one that occurred",
    of=whole("how many faults have it"),
    p50=maybe(number()),
    p95=maybe(number()),
    max=maybe(number()),
)

FAULT = record(
    "a fault, from the first blow until it was healed",
    number=whole("counts by time from 1"),
    step=maybe(text("of the scenario")),
    kinds=many(text(), "verbs in snake_case"),
    target=text(),
    brokers=many(whole()),
    role=maybe(text("what the target was when it was struck")),
    began=moment(),
    struck=maybe(moment("when the last blow was done")),
    ended=maybe(moment("when it was healed; null: never")),
    ok=flag("whether the actions succeeded"),
    detail=maybe(text()),
    name=text("power loss"),
    title=text("power loss of broker 2"),
    seconds=maybe(number()),
    noticed=maybe(number("until the controller fenced a broker of it")),
    told=flag("whether its partitions are told; see `left_out`"),
    gone_from_its_own_logs=whole("records that the struck brokers did not find again, at least"),
    partitions=many(
        record(
            "how a partition came through; times since the fault began, null where nothing of the kind happened",
            **PLACE,
            led=flag("a broker of the fault led it"),
            old_leader=maybe(whole()),
            new_leader=maybe(whole("-1: nobody")),
            re_elected=maybe(number()),
            gap=maybe(number("the longest pause of acknowledgements that it made")),
            re_acknowledged=maybe(number("until the end of that pause")),
            never_again=flag("nothing was acknowledged after that pause"),
            shrunk=maybe(number("until the ISR lost a broker of the fault")),
            full_isr=maybe(number("until the ISR had every replica again")),
        )
    ),
    worst=record(
        "the worst of its partitions",
        re_elected=maybe(number()),
        re_acknowledged=maybe(number()),
        gap=maybe(number()),
        full_isr=maybe(number()),
        led=whole("partitions that its brokers led"),
        never_elected=whole("of these, those that got no other leader"),
        never_acknowledged=whole("partitions in which nothing was acknowledged any more"),
        shrunk=whole("partitions whose ISR lost a broker of it"),
        never_full=whole("of these, those whose ISR never had every replica again"),
    ),
)
FAULT_KIND = record(
    "all faults of one name, the worst partition of each",
    name=text(),
    faults=whole(),
    not_healed=whole(),
    never_acknowledged=whole("faults after which a partition acknowledged nothing any more"),
    never_full=whole("faults after which an ISR never had every replica again"),
    noticed=PERCENTILES,
    re_elected=PERCENTILES,
    re_acknowledged=PERCENTILES,
    full_isr=PERCENTILES,
)
VERDICT = record(
    "the verdict, and whether both judges come to it",
    verdict=either("Passed", "Failed", "Inconclusive", "Aborted", "Error"),
    by=either("both", "nobody", "verifier", "analysis"),
    sentence=text(),
    detail=text(),
    verifier=maybe(text("the verifier's word")),
    recomputed=text("what follows from the raw evidence"),
    reasons=many(text()),
    agree=maybe(flag("null: there is nothing to compare")),
    differences=many(record("", figure=text(), verifier={}, analysis={})),
)
ANOMALY = record(
    "one of the first anomalies of a kind",
    kind=text("docs/reference/verdicts.md"),
    number=whole("among its kind"),
    note=flag("allowed by the settings"),
    topic=maybe(text()),
    partition=maybe(whole()),
    offset=maybe(whole()),
    value=maybe(text()),
    process=maybe(whole("the client that sent it")),
    invoked_at=maybe(moment()),
    completed_at=maybe(moment()),
    outcome=maybe(text()),
    first_offset=maybe(whole()),
    copies=maybe(whole()),
    lost=flag(),
    cuts=many(whole(), "ids of the truncations whose range holds a lost record's offset"),
    now_holds=maybe(text("what the final read found at a lost record's offset")),
)
ELECTION = record(
    "a leader epoch of a partition",
    **PLACE,
    leader_epoch=whole(),
    leader=maybe(whole("-1: the partition was offline")),
    began=moment(),
    elected_at=maybe(moment()),
    took_office_at=maybe(moment()),
    controller=maybe(whole()),
    clean=maybe(flag()),
    reason=maybe(text()),
    isr=maybe(many(whole())),
    previous_leader=maybe(whole()),
    until=maybe(moment("null: to the end of the run")),
    next_leader=maybe(whole()),
    next_led_from=maybe(moment()),
    id=whole(),
    time=moment(),
    **BLAMED,
)
ISR_CHANGE = record(
    "a change of a partition's ISR; the first ISR is one, too",
    **PLACE,
    time=moment(),
    seq=maybe(whole("of the line in its file")),
    event=text(),
    broker=maybe(whole("who told it")),
    leader_epoch=maybe(whole()),
    isr=many(whole()),
    first=flag(),
    removed=many(whole()),
    added=many(whole()),
    id=whole(),
    until=maybe(moment()),
    full_at=maybe(moment("when, after that, the ISR had every replica again")),
    **BLAMED,
)
TRUNCATION = record(
    "a replica cut its log",
    **PLACE,
    id=whole(),
    time=moment(),
    broker=whole(),
    leader_epoch=maybe(whole()),
    reason=maybe(text()),
    records=maybe(whole()),
    low=whole("the first offset that was cut"),
    high=whole("the first offset after those that were cut"),
    acked=whole("acknowledged records among them"),
    acked_lost=whole("of these, those that the final read did not find"),
    **BLAMED,
)
RETURN = record(
    "what a replica had when its broker came back",
    **PLACE,
    id=whole(),
    time=moment(),
    broker=whole(),
    clean=maybe(flag("after a clean stop")),
    recovery_point=maybe(whole()),
    log_end_offset=maybe(whole()),
    truncated_bytes=maybe(whole("of a torn tail")),
    last_leo=maybe(whole("log end offset at the last scrape before")),
    last_flushed=maybe(whole()),
    last_seen=maybe(moment("when that scrape was")),
    missing=maybe(whole("records gone, at least")),
    **BLAMED,
)
STALL = record(
    "a time in which an offset did not move although there was something to move for, by scrapes of leaders",
    what=either(HIGH_WATERMARK, FOLLOWER),
    **PLACE,
    broker=maybe(whole("the follower; of a high watermark the leader")),
    leader=whole(),
    leader_epoch=maybe(whole()),
    began=moment("the first scrape with this offset"),
    ended=moment("the last one"),
    seconds=number("at least; it was longer by less than two intervals"),
    scrapes=whole("with this offset"),
    behind=whole("records to the log end offset, at worst"),
    open=flag("to the last look at the run"),
    fault=BLAMED["fault"],
    after_fault=BLAMED["after_fault"],
)
ISR_OF_A_PARTITION = record(
    "how often the ISR of a partition changed, and for how long it was short; the changes one by one are `isr_changes`",
    **PLACE,
    replicas=whole(),
    shrinks=whole(),
    expansions=whole(),
    shrinks_within=whole(f"the most shrinks within {WITHIN_SECONDS} s"),
    shrinks_within_from=maybe(moment("when the first of these was")),
    least=whole("in-sync replicas at worst"),
    short=number("seconds with fewer than all replicas"),
    longest_short=number("the longest such time"),
    alone=number("seconds with one in-sync replica, or none, of several"),
)
SCRAPE_COVERAGE = record(
    "what scrapes did not see, and what events do not tell",
    skew=maybe(number("seconds by which a scrape saw a leader epoch before its event, at most: clocks that differ")),
    unlogged=whole("leader epochs that scrapes saw, and of which no event tells"),
    brokers=many(
        record(
            "how a broker was scraped",
            broker=whole(),
            scrapes=whole(),
            failed=whole(),
            unscraped=number("seconds without an answer, of all times that count as a silence"),
            longest=number("the longest of these"),
            anew=whole(
                "neighbouring scrapes between which its process began anew or a counter fell: left out of `resources`"
            ),
            apart=whole("neighbouring scrapes too far apart: left out there, too"),
            missing=many(text("a metric that no scrape tells: what is made of it is not in `resources`")),
        )
    ),
    events=many(
        record(
            "events of one kind, against the gauges that tell of them",
            what=either(*SEEN_BY),
            events=whole(),
            unseen=maybe(whole("of these, over before a scrape met them; null: no scrape tells of such things")),
            looks=whole("what scrapes told of such things: states of partitions that differ, scrapes of brokers"),
            slowest=maybe(number("seconds until a scrape saw an event, at most")),
            examples=many(
                record(
                    "the first that none saw",
                    time=moment(),
                    until=maybe(moment("when it was over; null: not before the run was")),
                    topic=maybe(text()),
                    partition=maybe(whole()),
                    broker=maybe(whole()),
                )
            ),
        )
    ),
)
RESOURCE = record(
    "what a broker used, or how long its requests took, by what its counters grew by from scrape to scrape",
    broker=whole(),
    fault=maybe(whole("in the time of this fault, whichever broker it struck; null: in that of none")),
    measure={**either(*MEASURES), "description": "; ".join(f"{name}: {about}" for name, about in MEASURES.items())},
    scrapes=whole("figures"),
    median=number(),
    mad=number("the median distance from the median"),
    most=number(),
    score=maybe(number("the modified z-score of the median against the time without faults")),
)
MOST_RECORDS = maybe(record("the most records at one moment", records=whole(), at=moment(), broker=maybe(whole())))

RUN = record(
    "a run; times are seconds since its beginning",
    label=text("A, B, ...: what it is called beside others"),
    id=text("the name of its folder"),
    scenario=record(
        "what the run is one of; null where nothing tells it",
        name=maybe(text()),
        version=maybe(text("of MiniKafka")),
        ground=maybe(text()),
    ),
    path=text(),
    description=maybe(text("of the scenario")),
    began_unix=number("unix seconds of the first send or action"),
    began_at=text("the same as ISO 8601"),
    seconds=number("how long it lasted"),
    clock=record("scrapes", interval=number("seconds between two"), scraped=flag(), scrapes=whole()),
    verdict=VERDICT,
    verifier=maybe(
        {"type": "object", "description": "the verifier's word, as in the journal (docs/reference/verdicts.md)"}
    ),
    counts={
        **record(
            "records, over all partitions",
            **COUNTS,
            longest_ack_gap_s=maybe(number()),
            duplicated=whole(),
            reordered=whole(),
            phantoms=whole(),
        )
    },
    kinds=named(whole(), "anomalies by kind"),
    partitions=many(record("a partition that the workload wrote to", **PLACE, replicas=maybe(whole()), **COUNTS)),
    brokers=many(whole()),
    errors=many(
        record(
            "an error that clients were given",
            outcome=text(),
            error=text(),
            sends=whole(),
            first_at=maybe(moment()),
            last_at=maybe(moment()),
        )
    ),
    anomalies=many(ANOMALY),
    coverage=many(
        record(
            "how far the final read came",
            **PLACE,
            records=maybe(whole()),
            last_offset=maybe(whole()),
            start_offset=maybe(whole()),
            end_offset=maybe(whole()),
            read_to=maybe(whole()),
            read_error=maybe(text()),
            readers_at_the_end=maybe(whole()),
            high_watermark=maybe(whole("the last that a leader exported")),
        )
    ),
    faults=many(FAULT),
    fault_kinds=many(FAULT_KIND, "the most frequent first"),
    gaps=many(
        record(
            "a pause of acknowledgements: the longest of each partition, longest first",
            **PLACE,
            rank=whole("in its partition"),
            began=moment(),
            ended=moment(),
            open=flag("nothing was acknowledged after it"),
            seconds=number(),
            waiting=whole("sends that waited at its end"),
            faults=many(whole(), "that overlap it"),
        )
    ),
    elections=many(ELECTION),
    isr_changes=many(ISR_CHANGE),
    truncations=many(TRUNCATION),
    returns=many(RETURN),
    events=many(
        record(
            "an event of a broker that stands for itself",
            time=moment(),
            broker=maybe(whole()),
            event=text(),
            topic=maybe(text()),
            partition=maybe(whole()),
            controller_epoch=maybe(whole()),
            leader_epoch=maybe(whole()),
            target=maybe(whole()),
            reason=maybe(text()),
            error=maybe(text()),
            fields=maybe(text("all of its fields, as JSON")),
        )
    ),
    throughput=record(
        "sends by outcome; latency of those acknowledged",
        step=whole("seconds in a step of time"),
        whole_run=maybe(record("", **RATES)),
        over_time=many(record("", second=whole("where the step begins"), **RATES)),
        per_partition=many(
            record("", topic=text(), partition=maybe(whole()), second=maybe(whole("null: the whole run")), **RATES)
        ),
    ),
    at_risk=many(
        record(
            "records of a replica that were not flushed",
            **PLACE,
            broker=whole(),
            most=whole(),
            mean=number(),
            most_at=moment(),
        )
    ),
    exposure=record(
        "the most records at risk of a power loss", one_broker=MOST_RECORDS, committed_on_no_disk=MOST_RECORDS
    ),
    silences=many(
        record(
            "a time in which a broker could not be scraped",
            broker=whole(),
            began=moment(),
            ended=moment(),
            open=flag("to the end"),
            failed=whole("scrapes"),
            faults=many(whole()),
        )
    ),
    watermarks_that_went_back=many(
        record(
            "never allowed",
            **PLACE,
            broker=whole(),
            time=moment(),
            hw=whole(),
            reached=whole("before that, in the same epoch"),
            leader_epoch=maybe(whole()),
        )
    ),
    stalls=many(STALL),
    isr=many(ISR_OF_A_PARTITION),
    blindness=SCRAPE_COVERAGE,
    resources=many(RESOURCE),
    settings=named(text(), "by dotted name"),
    left_out=named(record("", among=whole(), told=whole()), "lists of which only the first rows are told"),
    files=record(
        "",
        missing=many(text()),
        lines=many(record("", table=text(), rows=whole(), malformed=whole(), example=maybe(text()))),
        landed=many(
            record("", table=text(), file=text(), bytes=whole(), sha256=text(), rows=whole(), bad=whole()),
            "files of the run, as they were read",
        ),
        quarantined=many(
            record("", table=text(), file=text(), reason=text(), lines=whole(), first=whole(), example=text()),
            "lines that could not be read, by file and reason; first: the number of the first one, from 1",
        ),
        unanswered=many(
            record("", metric=text(), began=moment(), ended=moment(), reason=text()),
            "what a Prometheus did not answer for, or only in part",
        ),
    ),
    figures=record("what runs are compared by", **{name: figure.column for name, figure in FIGURES.items()}),
    unknowns=many(text(), "what must not be concluded"),
)

DOCUMENT = record(
    "What `minikafka analyze` writes beside report.html. Durations are seconds; offsets and counts are whole numbers.",
    schema={"const": SCHEMA_VERSION},
    generator=text(),
    generated_at=text("ISO 8601"),
    runs=many(RUN),
    differing_settings=many(text(), "names of settings that are not the same in all runs"),
    asked=many(
        record(
            "what Spark was asked",
            name=text(),
            answer=flag("false: a step that others start from"),
            needs=many(text(), "steps and tables that it reads"),
            sql=many(text(), "empty: rows as they are, or by expressions of Spark's API"),
        )
    ),
)


def schema(closed: bool = False) -> Schema:
    """The schema. `closed`: keys that it does not name are refused."""
    head: Schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The report of runs of MiniKafka",
    }
    document: Schema = _closed(DOCUMENT) if closed else DOCUMENT
    return head | document


def _closed(part: Any) -> Any:
    if isinstance(part, list):
        return [_closed(each) for each in part]
    if not isinstance(part, dict):
        return part
    inner = {key: _closed(value) for key, value in part.items()}
    return inner | {"additionalProperties": False} if "required" in part else inner
