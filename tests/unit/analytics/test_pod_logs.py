"""Events from logs of pods: whole and damaged ones, and the same events from elsewhere."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from minikafka_analytics.sources import collect, pod_logs

BEGAN = 1_767_225_600.0
POD = "lab_shop-broker-{}_5d7c0a1e-{}"


def event(second: float, broker: int = 0, name: str = "isr_shrunk", **fields: Any) -> str:
    """A line as a broker writes it."""
    record = {
        "time": BEGAN + second,
        "broker": broker,
        "event": name,
        "topic": "bank",
        "partition": 0,
        "fields": fields,
    }
    return json.dumps(record, separators=(",", ":"))


def cri(text: str, nanos: int, stream: str = "stdout", tag: str = "F") -> str:
    """A line as the kubelet has it."""
    return f"2026-01-01T00:00:00.{nanos:09d}Z {stream} {tag} {text}"


class Logs:
    """A folder of pod logs; each line gets a time of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._nanos = 0

    def write(self, broker: int, name: str, *texts: str, uid: int = 1, raw: str = "") -> Path:
        path = self.folder / POD.format(broker, uid) / "broker" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [cri(text, self._next()) + "\n" for text in texts]
        with path.open("a") as file:
            file.write("".join(lines) + raw)
        return path

    def parts(self, *texts: str, stream: str = "stdout") -> str:
        """One line in parts, as the runtime cuts what is longer than 16 KiB."""
        *first, last = texts
        lines = [cri(text, self._next(), stream, "P") for text in first]
        return "".join(f"{line}\n" for line in [*lines, cri(last, self._next(), stream)])

    def _next(self) -> int:
        self._nanos += 1
        return self._nanos


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path / "logs")


def seconds(found: pod_logs.PodLogFolder) -> list[float]:
    return sorted(each.time - BEGAN for each in found.events.values())


def counts(found: pod_logs.PodLogFolder) -> dict[str, int]:
    names = ("damaged", "unfinished", "repeated", "other")
    return {name: getattr(found, name) for name in names if getattr(found, name)}


class TestLines:
    def test_of_several_brokers_pods_and_restarts(self, logs: Logs) -> None:
        for broker in range(3):
            logs.write(broker, "0.log", event(broker, broker))
            logs.write(broker, "1.log", event(10 + broker, broker))
            logs.write(broker, "0.log", event(20 + broker, broker), uid=2)
        found = pod_logs.read([logs.folder])
        assert seconds(found) == [0, 1, 2, 10, 11, 12, 20, 21, 22]
        assert {each.broker for each in found.events.values()} == {0, 1, 2}
        assert (found.logs, counts(found), found.summary()) == (9, {}, "")

    def test_parts_are_joined_across_other_streams_and_rotation(self, logs: Logs) -> None:
        whole = event(1, reason="x" * 40)
        logs.write(0, "0.log.20260101-000000", raw=logs.parts(whole[:5], whole[5:9], whole[9:]).rpartition("2026")[0])
        logs.write(0, "0.log", raw=cri("a warning", 500, "stderr") + "\n" + cri(whole[9:], 501) + "\n")
        found = pod_logs.read([logs.folder])
        assert [each.line for each in found.events.values()] == [whole]
        assert counts(found) == {"other": 1}

    def test_parts_of_another_life_are_not_joined(self, logs: Logs) -> None:
        whole = event(1)
        logs.write(0, "0.log", raw=cri(whole[:20], 1, tag="P") + "\n")
        logs.write(0, "1.log", whole[20:], event(2))
        found = pod_logs.read([logs.folder])
        assert seconds(found) == [2]
        assert counts(found) == {"unfinished": 1, "other": 1}

    def test_what_was_rotated_is_read_first_also_compressed(self, logs: Logs) -> None:
        first = logs.write(0, "0.log.20260101-000000", event(1))
        with gzip.open(f"{first}.gz", "wb") as file:
            file.write(first.read_bytes())
        first.unlink()
        logs.write(0, "0.log.20260101-000010", event(2))
        logs.write(0, "0.log", event(3))
        assert seconds(pod_logs.read([logs.folder])) == [1, 2, 3]

    def test_what_the_kubelet_is_compressing_is_read_once(self, logs: Logs) -> None:
        """It writes LOG.tmp beside LOG, which goes when LOG.gz is there."""
        logs.write(0, "0.log", event(2))
        rotated = logs.write(0, "0.log.20260101-000000", event(1))
        rotated.with_name(f"{rotated.name}.tmp").write_bytes(gzip.compress(rotated.read_bytes())[:40])
        found = pod_logs.read([logs.folder])
        assert (seconds(found), counts(found), found.unreadable) == ([1, 2], {}, [])

    def test_a_compressed_file_that_is_cut_short_is_told(self, logs: Logs) -> None:
        path = logs.write(0, "0.log.20260101-000000.gz")
        packed = gzip.compress("".join(f"{cri(event(n), n)}\n" for n in range(500)).encode())
        path.write_bytes(packed[: len(packed) // 2])
        logs.write(0, "0.log", event(900))
        found = pod_logs.read([logs.folder])
        assert 900 in seconds(found) and 1 < len(found.events) < 501
        assert "Not read to the end: lab_shop-broker-0_5d7c0a1e-1/broker/0.log.20260101-000000.gz" in found.summary()

    @pytest.mark.parametrize(
        ("line", "counted"),
        [
            (cri(event(9)[:40], 1), "damaged"),  # the end is missing
            (cri(event(9), 1)[30:], "damaged"),  # the beginning is missing
            (cri(event(9), 1)[:31], "damaged"),  # nothing but the prefix's beginning
            ("\x00" * 40, "damaged"),
            (cri(event(9)[:40], 1, tag="P"), "unfinished"),
            (cri("minikafka: cannot bind", 1, "stderr"), "other"),
            (cri('{"level":"info","msg":"another program"}', 1), "other"),
            (cri('{"time":"noon","broker":0,"event":"x"}', 1), "damaged"),
            (cri('{"time":1.5,"broker":"0","event":"x"}', 1), "damaged"),
            (cri("[" * 100_000, 1), "other"),
        ],
    )
    def test_what_is_no_event_is_counted(self, logs: Logs, line: str, counted: str) -> None:
        logs.write(0, "0.log", event(1))
        logs.write(0, "0.log", raw=f"{line}\n")
        logs.write(0, "0.log", event(2))
        found = pod_logs.read([logs.folder])
        assert seconds(found) == [1, 2]
        assert counts(found) == {counted: 1}
        assert "1 " in found.summary()

    @pytest.mark.parametrize(
        ("time", "broker"), [("1" + "0" * 400, "0"), ("NaN", "0"), ("1e300", "0"), ("1", "1" + "0" * 300), ("1", "-1")]
    )
    def test_of_no_time_and_no_broker_there_is_no_event(self, logs: Logs, time: str, broker: str) -> None:
        logs.write(0, "0.log", f'{{"time":{time},"broker":{broker},"event":"x"}}', event(1))
        found = pod_logs.read([logs.folder])
        assert (seconds(found), counts(found)) == ([1], {"damaged": 1})

    def test_a_log_that_ends_in_the_middle_of_a_line(self, logs: Logs) -> None:
        logs.write(0, "0.log", event(1), raw=cri(event(2), 7)[:-5])
        logs.write(1, "0.log", event(3), raw=cri(event(4), 8))  # only the line's end is missing
        found = pod_logs.read([logs.folder])
        assert seconds(found) == [1, 3, 4]
        assert counts(found) == {"damaged": 1}

    def test_a_whole_line_behind_one_that_was_cut_short_is_read(self, logs: Logs) -> None:
        """A full disk leaves half a line, and the collector writes the whole one again behind it."""
        line = cri(event(1), 1)
        logs.write(0, "0.log", raw=f"{line[:60]}{line}\n")
        found = pod_logs.read([logs.folder])
        assert seconds(found) == [1]
        assert counts(found) == {"damaged": 1}

    def test_lines_that_a_collector_repeats_are_read_once(self, logs: Logs) -> None:
        whole = event(2)
        raw = [cri(event(1), 1), cri(whole[:30], 2, tag="P"), cri(whole[30:], 3)]
        logs.write(0, "0.log", raw="".join(f"{line}\n" for line in [*raw[:2], *raw]))
        found = pod_logs.read([logs.folder])
        assert seconds(found) == [1, 2]
        assert counts(found) == {"repeated": 2}

    def test_other_folders_and_files_are_left_alone(self, logs: Logs, tmp_path: Path) -> None:
        logs.write(0, "0.log", event(1))
        logs.write(0, "notes.txt", event(2))
        (logs.folder / "lost+found").mkdir()
        (logs.folder / "file_without_folder").write_text("x")
        other = logs.folder / "lab_other-broker-0_1" / "broker"
        other.mkdir(parents=True)
        (other / "0.log").write_text(f"{cri(event(3), 1)}\n")
        assert seconds(pod_logs.read([logs.folder])) == [1, 3]
        assert seconds(pod_logs.read([logs.folder], "lab/shop-broker-*")) == [1]
        assert seconds(pod_logs.read([logs.folder], "elsewhere/*")) == []


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of 400 s."""
    folder = tmp_path / "run"
    folder.mkdir()
    times = [{"time": BEGAN}, {"time": BEGAN + 400}]
    (folder / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in times))
    return folder


def events_of(run: Path) -> dict[str, list[float]]:
    return {
        path.name: [json.loads(line)["time"] - BEGAN for line in path.read_text().splitlines()]
        for path in sorted((run / "events").glob("*.jsonl"))
    }


class TestOfARun:
    def put(self, run: Path, logs: Logs, *more: str) -> int:
        return collect.main([str(run), "--pod-logs", str(logs.folder), *more])

    def volume(self, folder: Path, broker: int, lines: Sequence[str]) -> None:
        (folder / str(broker)).mkdir(parents=True)
        (folder / str(broker) / f"broker-{broker}.jsonl").write_text("".join(f"{line}\n" for line in lines))

    def test_become_its_events_in_the_order_of_time(
        self, run: Path, logs: Logs, capsys: pytest.CaptureFixture[str]
    ) -> None:
        logs.write(0, "0.log", event(3), event(-3600), event(1), "hello")
        logs.write(1, "0.log", event(2, 1), raw="torn\n")
        assert self.put(run, logs) == 0
        assert events_of(run) == {"pods-broker-0.jsonl": [1, 3], "pods-broker-1.jsonl": [2]}
        assert capsys.readouterr().out == (
            "events: 3 from 2 logs of pods, which had 0 more that the run has already. 1 were of another time. "
            "Lines left out: 1 damaged, 1 no events\n"
        )

    def test_an_event_that_a_volume_has_too_is_one(self, run: Path, logs: Logs, tmp_path: Path) -> None:
        """Also after a second call, and when the volume's lines have their keys in another order."""
        logs.write(0, "0.log", event(1), event(2), event(2, name="isr_expanded"), event(3))
        turned = json.dumps(json.loads(event(3)), sort_keys=True)
        self.volume(tmp_path / "volumes", 0, [event(2), turned, event(4)])
        for _ in range(2):
            assert self.put(run, logs, "--events", str(tmp_path / "volumes")) == 0
            assert events_of(run) == {"pods-broker-0.jsonl": [1, 2], "volume-broker-0.jsonl": [2, 3, 4]}

    def test_what_the_run_has_itself_is_neither_replaced_nor_repeated(self, run: Path, logs: Logs) -> None:
        (run / "events").mkdir()
        (run / "events" / "broker-0.jsonl").write_text(f"{event(1)}\n")
        logs.write(0, "0.log", event(1))
        logs.write(0, "0.log", event(5), uid=2)
        assert self.put(run, logs) == 0
        assert events_of(run) == {"broker-0.jsonl": [1], "pods-broker-0.jsonl": [5]}

    def test_the_kubelets_and_the_collectors_copy_together(self, run: Path, logs: Logs, tmp_path: Path) -> None:
        kept = Logs(tmp_path / "kept")
        kept.write(0, "0.log", event(1), event(2))
        logs.write(0, "0.log", event(2), event(3))
        assert self.put(run, logs, "--pod-logs", str(kept.folder)) == 0
        assert events_of(run) == {"pods-broker-0.jsonl": [1, 2, 3]}

    def test_what_is_no_text_comes_as_it_is(self, run: Path, logs: Logs) -> None:
        """So that the landing puts it into quarantine."""
        path = logs.write(0, "0.log", event(1, error="X"))
        path.write_bytes(path.read_bytes().replace(b"X", b"\xff"))
        assert collect.main([str(run), "--pod-logs", str(logs.folder)]) == 0
        assert b'"error":"\xff"' in (run / "events" / "pods-broker-0.jsonl").read_bytes()

    @pytest.mark.parametrize(
        ("texts", "more", "says"),
        [
            ([event(1)], ["--pods", "lab/others-*"], "no log of a pod"),
            (["a warning"], [], "have the brokers minikafka.events.stdout=true? Lines left out: 1 no events"),
            ([event(9999)], [], "no event in the time of the run"),
        ],
    )
    def test_none_are_to_be_had(
        self,
        run: Path,
        logs: Logs,
        texts: list[str],
        more: list[str],
        says: str,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        logs.write(0, "0.log", *texts)
        assert self.put(run, logs, *more) == 3
        assert says in capsys.readouterr().err
        assert not (run / "events").exists()

    def test_a_folder_that_is_not_there(self, run: Path, logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.put(run, logs) == 3
        assert "No such file" in capsys.readouterr().err
