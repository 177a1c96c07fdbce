"""Observing: Prometheus' text format, and samples.jsonl."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path

import pytest
from minikafka.protocol.types import TopicPartition
from minikafka.telemetry.exposition import BrokerCollector
from minikafka.telemetry.stats import BrokerStats
from minikafka_chaos.record.observe import (
    SAMPLES_FILE,
    Observer,
    Sample,
    fetch,
    parse_metrics,
    replica_status,
    scrape,
    scrape_status,
)

TEXT = """\
# HELP minikafka_log_end_offset The next offset
# TYPE minikafka_log_end_offset gauge
minikafka_log_end_offset{topic="t",partition="0"} 12.0
minikafka_log_end_offset{topic="a \\"b\\"\\\\c\\n",partition="1"} 3
minikafka_replica_role{topic="t",partition="0"} 2
minikafka_isr_shrinks_total 4
process_cpu_seconds_total 1.5e-1
python_info{version="3.11"} 1
"""


def test_samples_are_parsed_and_strangers_left_out() -> None:
    samples = parse_metrics(TEXT)
    assert samples[0] == Sample("minikafka_log_end_offset", {"topic": "t", "partition": "0"}, 12.0)
    assert samples[1].labels["topic"] == 'a "b"\\c\n'
    assert [repr(sample.value) for sample in samples] == ["12.0", "3", "2", "4", "0.15"], "as the page has it"
    assert samples[-2:] == [
        Sample("minikafka_isr_shrinks_total", {}, 4.0),
        Sample("process_cpu_seconds_total", {}, 0.15),
    ]


@pytest.mark.parametrize("line", ["not-a-number", "1 1700000000000"])
def test_a_page_that_is_none_is_a_failed_scrape(line: str) -> None:
    """A timestamp, which the format allows and no broker tells, is not taken for the value."""
    with pytest.raises(ValueError):
        parse_metrics(TEXT + f'minikafka_broken{{topic="t"}} {line}\n')


def test_any_name_of_a_group_leaves_the_page_readable() -> None:
    """Each of these characters ends a line to somebody (str.splitlines, Java); in the text format only a newline does."""
    stats = BrokerStats()
    names = [
        "\n",
        "\r",
        "\r\n",
        *"\v\f\x1c\x1d\x1e\x85\u2028\u2029",
        "\x00",
        "\\",
        '"',
        "\\n",
        "} 1",
        "# HELP x",
        " ",
        "\U0001f600",
    ]
    groups = [f"a{name}b" for name in names] + names
    stats.group_members = {group: number for number, group in enumerate(groups)}
    samples = parse_metrics(b"".join(BrokerCollector(stats, lambda: []).render()).decode())
    found = {sample.labels["group"]: sample.value for sample in samples if "group" in sample.labels}
    assert found == stats.group_members


def test_the_status_of_one_replica() -> None:
    status = replica_status(parse_metrics(TEXT), TopicPartition("t", 0))
    assert (status.role, status.log_end_offset, status.high_watermark) == (2, 12, None)


@pytest.fixture
def broker() -> Iterator[str]:
    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(TEXT.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Metrics)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_scrape_that_fails_is_a_line_too(tmp_path: Path, broker: str) -> None:
    observer = Observer(tmp_path, {1: broker, 2: "http://127.0.0.1:1/metrics"}, interval_s=0.01, timeout_s=30)
    observer.start()
    observer.stop(60)
    assert observer.failure is None
    lines = [json.loads(line) for line in (tmp_path / SAMPLES_FILE).read_text().splitlines()]
    assert ["samples" in line for line in lines[:2]] == [True, False]
    assert lines[0]["samples"][0] == ["minikafka_log_end_offset", {"topic": "t", "partition": "0"}, 12.0]
    assert "refused" in lines[1]["error"]


def test_all_brokers_are_asked_at_once(tmp_path: Path) -> None:
    """No broker answers before every broker has been asked, and all samples of a round have one time."""
    together = threading.Barrier(3, timeout=30)

    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            together.wait()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(TEXT.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Metrics) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        url = f"http://127.0.0.1:{server.server_port}/metrics"
        observer = Observer(tmp_path, dict.fromkeys((1, 2, 3), url), interval_s=60, timeout_s=30)
        observer.start()
        observer.stop(30)
        server.shutdown()
    assert observer.failure is None
    lines = [json.loads(line) for line in (tmp_path / SAMPLES_FILE).read_text().splitlines()]
    assert [line["broker"] for line in lines] == [1, 2, 3] * (len(lines) // 3)
    assert all("samples" in line for line in lines)
    assert [line["time"] for line in lines[:3]] == [lines[0]["time"]] * 3


def test_a_broker_that_does_not_answer_is_an_oserror() -> None:
    with pytest.raises(OSError, match="refused"):
        scrape("http://127.0.0.1:1/metrics")


def test_the_status_of_a_replica_whose_broker_does_not_answer_is_unknown(broker: str) -> None:
    patient = partial(scrape_status, fetch=lambda url, _: fetch(url, 30))
    assert patient(broker, TopicPartition("t", 0)).log_end_offset == 12
    assert set(scrape_status("http://127.0.0.1:1/metrics", TopicPartition("t", 0))) == {None}
