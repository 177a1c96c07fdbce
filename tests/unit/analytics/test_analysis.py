"""Figures that Spark computes, against what the generator of the runs knows."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import VARIANTS, Analysed
from synthetic_run import (
    ACKED_AGAIN_AT,
    BACK_AT,
    BEGAN,
    CUT,
    ELECTED_AT,
    FOREIGN,
    FULL_AGAIN_AT,
    FULL_AT,
    KILL_AT,
    NOTICED_AFTER,
    PER_SECOND,
    POWER_LOSS_AT,
    SHRUNK_AT,
    STARTED_AT,
    UNFLUSHED,
)

pytestmark = pytest.mark.timeout(900)
LOSSY = "lossy [1] {a}"


def near(value: float) -> Any:
    """Unix times are doubles of ten digits before the point, so milliseconds are what remains of a difference."""
    return pytest.approx(value, abs=2e-3)


def test_every_run_is_there_in_the_order_given(analysed: Analysed) -> None:
    assert [run["id"] for run in analysed.report["runs"]] == [*VARIANTS, analysed.demo.folder.name]
    assert analysed.report["schema"] == "minikafka.report/v1"


def test_what_brokers_wrote_in_a_demo_is_read(analysed: Analysed) -> None:
    """Both judges say the same of it, and of what brokers wrote in it no line is unknown and no table empty."""
    run, told = analysed.run(analysed.demo.folder.name), analysed.demo.verdict
    assert (run["verdict"]["verdict"], run["verdict"]["verifier"], run["verdict"]["agree"]) == (
        "Passed",
        "Passed",
        True,
    )
    assert run["counts"]["acked"] == run["counts"]["acknowledged"] == told["counts"]["acknowledged"]
    assert [fault["name"] for fault in run["faults"]] == ["kill -9", "power loss"]
    assert all(row["malformed"] == 0 for row in run["files"]["lines"])
    assert {row["table"] for row in run["files"]["lines"] if row["rows"]} >= {"events", "history", "journal", "samples"}
    assert run["elections"] and run["at_risk"] and run["gaps"]


@pytest.mark.parametrize("name", VARIANTS)
def test_sends_are_counted_by_outcome(analysed: Analysed, name: str) -> None:
    counts, expected = analysed.run(name)["counts"], analysed.expected[name]
    assert (counts["acked"], counts["failed"], counts["unknown"]) == (expected.acked, expected.failed, expected.unknown)
    assert counts["sent"] == expected.acked + expected.failed + expected.unknown


def test_a_run_that_lost_nothing_passes(analysed: Analysed) -> None:
    run = analysed.run("good")
    assert run["verdict"]["verdict"] == run["verdict"]["recomputed"] == "Passed"
    assert run["verdict"]["agree"] is True
    assert run["counts"]["lost"] == run["counts"]["duplicated"] == run["counts"]["reordered"] == 0
    assert run["counts"]["read"] == run["counts"]["acked"]
    assert run["anomalies"] == []


def test_the_lost_record_is_found_with_the_truncation_that_took_it(analysed: Analysed) -> None:
    run, expected = analysed.run(LOSSY), analysed.expected[LOSSY]
    assert run["verdict"]["verdict"] == run["verdict"]["recomputed"] == "Failed"
    assert run["counts"]["lost"] == 1
    lost = [row for row in run["anomalies"] if row["lost"]]
    assert [row["value"] for row in lost] == expected.lost
    (cut,) = [row for row in run["truncations"] if row["id"] in lost[0]["cuts"]]
    assert (cut["low"], cut["high"], cut["broker"], cut["fault"]) == (expected.cut_to, expected.cut_from, 1, 1)
    assert (cut["acked"], cut["acked_lost"]) == (1, 1)


def test_the_record_that_is_stored_twice_is_found(analysed: Analysed) -> None:
    run, expected = analysed.run(LOSSY), analysed.expected[LOSSY]
    assert run["counts"]["duplicated"] == 1
    twice = [row for row in run["anomalies"] if row["kind"] == "duplicate"]
    assert [(row["value"], row["copies"]) for row in twice] == [(expected.duplicated[0], 2)]


def test_a_torn_last_line_costs_that_line_only(analysed: Analysed) -> None:
    torn, whole = analysed.run(LOSSY), analysed.run("good")
    assert {row["table"]: row["malformed"] for row in torn["files"]["lines"]} == {
        "events": 3,
        "history": 1,
        "journal": 1,
        "samples": 1,
    }
    assert all(row["malformed"] == 0 for row in whole["files"]["lines"])
    assert torn["counts"]["acked"] == whole["counts"]["acked"]
    assert len(torn["elections"]) == len(whole["elections"])
    (history,) = [row for row in torn["files"]["quarantined"] if row["table"] == "history"]
    assert (history["file"], history["reason"], history["lines"]) == ("history.jsonl", "truncated", 1)
    line = f"line {history['first']:,}, “{history['example']}”"
    assert f"1 line of history.jsonl could not be read and counted as nothing: truncated ({line})." in torn["unknowns"]


def test_lines_that_are_none_of_a_run_are_counted_and_make_the_evidence_unfit(analysed: Analysed) -> None:
    foreign, whole = analysed.run("foreign-lines"), analysed.run("good")
    malformed = {row["table"]: row["malformed"] for row in foreign["files"]["lines"]}
    lines = len(FOREIGN)
    assert malformed == {"events": 3 * lines, "history": lines, "journal": lines, "samples": lines}
    reasons = {row["reason"]: row["lines"] for row in foreign["files"]["quarantined"] if row["table"] == "history"}
    assert reasons == {"foreign": 4, "not text": 1, "wrong type": 1, "out of bounds": 2}
    assert whole["files"]["quarantined"] == []
    for figures in ("counts", "figures", "faults", "elections", "truncations", "at_risk", "seconds"):
        assert foreign[figures] == whole[figures], figures
    assert foreign["verdict"]["recomputed"] == "Error"  # the rule Contradictions: nobody knows what such a line hides


def test_the_verifier_is_contradicted_when_it_missed_a_loss(analysed: Analysed) -> None:
    verdict = analysed.run("hidden-loss")["verdict"]
    assert (verdict["verdict"], verdict["verifier"], verdict["recomputed"]) == ("Inconclusive", "Passed", "Failed")
    assert verdict["agree"] is False
    assert {"figure": "lost", "verifier": 0, "analysis": 1} in verdict["differences"]


def test_a_run_cut_short_is_inconclusive(analysed: Analysed) -> None:
    run = analysed.run("unjudged")
    assert run["verdict"]["verdict"] == "Inconclusive"
    assert run["verdict"]["by"] == "analysis"
    assert any("no verdict" in line for line in run["unknowns"])


def test_a_history_alone_is_enough_for_a_verdict(analysed: Analysed) -> None:
    run = analysed.run("history-only")
    assert run["verdict"]["verdict"] == "Passed"
    assert run["files"]["missing"] == [
        "journal.jsonl",
        "events/broker-N.jsonl",
        "metrics/samples.jsonl",
        "replicas.jsonl",
    ]
    assert run["faults"] == run["elections"] == run["at_risk"] == []
    assert run["gaps"][0]["seconds"] == near(analysed.expected["history-only"].longest_gap[0])


def test_faults_are_whole_episodes(analysed: Analysed) -> None:
    kill, power_loss = analysed.run("good")["faults"]
    assert (kill["name"], kill["brokers"], kill["role"]) == ("kill -9", [1], "leader of bank-0")
    assert (kill["began"], kill["ended"]) == (near(KILL_AT), near(STARTED_AT))
    assert (power_loss["name"], power_loss["kinds"]) == ("power loss", ["kill", "wipe_unflushed"])
    assert (power_loss["began"], power_loss["ended"]) == (near(POWER_LOSS_AT), near(BACK_AT))
    assert (kill["noticed"], power_loss["noticed"]) == (near(NOTICED_AFTER), None)


def test_times_to_recover(analysed: Analysed) -> None:
    kill, power_loss = analysed.run("good")["faults"]
    bank_0, bank_1 = kill["partitions"]
    assert (bank_0["led"], bank_0["old_leader"], bank_0["new_leader"]) == (True, 1, 2)
    assert bank_0["re_elected"] == near(ELECTED_AT - KILL_AT)
    assert bank_0["re_acknowledged"] == near(ACKED_AGAIN_AT + 0.004 - KILL_AT)
    assert bank_0["full_isr"] == bank_1["full_isr"] == near(FULL_AT - KILL_AT)
    assert (bank_1["led"], bank_1["re_elected"]) == (False, None)
    assert kill["worst"]["gap"] == near(analysed.expected["good"].longest_gap[0])
    assert power_loss["worst"]["re_elected"] is None
    assert power_loss["worst"]["re_acknowledged"] is None  # no pause that a client would notice
    assert power_loss["worst"]["full_isr"] == near(FULL_AGAIN_AT - POWER_LOSS_AT)


def test_the_longest_gap_overlaps_the_fault_that_made_it(analysed: Analysed) -> None:
    gap = analysed.run("good")["gaps"][0]
    assert (gap["topic"], gap["partition"], gap["faults"], gap["open"]) == ("bank", 0, [1], False)
    assert gap["seconds"] == near(analysed.expected["good"].longest_gap[0])
    assert gap["waiting"] == 6  # four sent before the first acknowledgement, and the two that are never answered


def test_elections_and_isr_changes_name_the_fault_before_them(analysed: Analysed) -> None:
    run = analysed.run("good")
    elected = [row for row in run["elections"] if row["previous_leader"] is not None]
    assert [(row["partition"], row["leader_epoch"], row["leader"], row["fault"]) for row in elected] == [(0, 1, 2, 1)]
    changes = [row for row in run["isr_changes"] if not row["first"]]
    assert [(row["partition"], row["removed"], row["added"], row["fault"]) for row in changes] == [
        (1, [1], [], 1),
        (0, [1], [], 1),
        (0, [], [1], 1),
        (1, [], [1], 1),
        (0, [3], [], 2),
        (1, [3], [], 2),
        (0, [], [3], 2),
        (1, [], [3], 2),
    ]
    assert changes[4]["time"] == near(SHRUNK_AT)


def test_a_truncation_is_not_blamed_for_the_next_leaders_records(analysed: Analysed) -> None:
    """The offsets that were cut were given out again by the next leader: those acknowledgements are not the cut ones."""
    (cut,) = analysed.run("good")["truncations"]
    assert (cut["records"], cut["high"] - cut["low"], cut["acked"], cut["acked_lost"]) == (CUT, CUT, 0, 0)
    assert (cut["fault"], cut["after_fault"]) == (1, near(STARTED_AT + 0.4 - KILL_AT))


def test_the_lag_is_the_leaders_own_and_no_leader_has_one(analysed: Analysed) -> None:
    """The lines of the plot are of followers only, and none is below zero: both offsets are the leader's."""
    good = analysed.html.split("<h1>Run good</h1>")[1].split("<h1>Run ")[0]
    plot = good.split('aria-label="Records behind the leader"')[2].split("</figure>")[0]
    assert "records that broker 1 lacked" in plot
    assert "records that broker 3 lacked" in plot
    assert "records that broker 2 lacked" not in plot  # it led bank-1 all the time


def test_data_at_risk(analysed: Analysed) -> None:
    run = analysed.run("good")
    assert {(row["broker"], row["partition"]): row["most"] for row in run["at_risk"]} == {
        (broker, partition): records for broker, records in UNFLUSHED.items() for partition in (0, 1)
    }
    assert run["exposure"]["one_broker"]["records"] == 2 * UNFLUSHED[3]
    assert 2 * (UNFLUSHED[2] - 1) <= run["exposure"]["committed_on_no_disk"]["records"] <= 2 * UNFLUSHED[2]


def test_silences_are_explained_by_faults(analysed: Analysed) -> None:
    run = analysed.run("good")
    assert [(row["broker"], row["faults"], row["open"]) for row in run["silences"]] == [
        (1, [1], False),
        (3, [2], False),
    ]
    assert not any("was not scraped" in line for line in run["unknowns"])


def test_throughput_and_latency(analysed: Analysed) -> None:
    throughput = analysed.run("good")["throughput"]
    by_second = {row["second"]: row for row in throughput["over_time"]}
    assert throughput["step"] == 1
    assert by_second[3]["acked"] == by_second[29]["acked"] == 2 * PER_SECOND
    assert sum(row["acked"] for row in by_second.values()) == analysed.expected["good"].acked
    assert throughput["whole_run"]["p50"] == near(0.004)
    assert by_second[8]["max"] == near(ACKED_AGAIN_AT + 0.004 - ELECTED_AT)


def test_settings_are_flat_and_compared(analysed: Analysed) -> None:
    settings = analysed.run("good")["settings"]
    assert settings["cluster.config.min.insync.replicas"] == "2"
    assert settings["workload.acks"] == "All"
    assert settings["client.idempotence"] == "false"
    assert "cluster.config.min.insync.replicas" in analysed.report["differing_settings"]  # history-only has none


def test_tables_are_landed_typed(analysed: Analysed) -> None:
    import pyarrow as pa
    import pyarrow.dataset as ds

    history = ds.dataset(analysed.parquet / "history", partitioning="hive").to_table()
    assert history.schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert history.schema.field("offset").type == pa.int64()
    assert history.schema.field("time").type == pa.float64()
    events = ds.dataset(analysed.parquet / "events", partitioning="hive").to_table().to_pylist()
    shrunk = [row for row in events if row["event"] == "isr_shrunk" and row["run"] in VARIANTS]
    assert all(row["removed"] in ([1], [3]) and row["time"] > BEGAN for row in shrunk)
    samples = ds.dataset(analysed.parquet / "samples", partitioning="hive").to_table(
        columns=["run", "metric", "value", "broker"]
    )
    up = [row for row in samples.to_pylist() if row["metric"] == "up" and row["run"] == "good" and row["broker"] == 1]
    assert [row["value"] for row in up].count(0.0) == 6
