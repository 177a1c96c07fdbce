"""Which addresses an experiment's author may have fetched."""

from __future__ import annotations

import http.server
import threading

import pytest
from minikafka_chaos.controller.main import parse
from minikafka_chaos.controller.prometheus_urls import IN_CLUSTER, BadEntry, checked, covers
from minikafka_chaos.scenario.probes import ask_prometheus


@pytest.mark.parametrize(
    "url",
    [
        "http://prometheus.monitoring.svc",
        "http://prometheus.monitoring.svc:9090",
        "https://prometheus.monitoring.svc.cluster.local:9090/team/",
        "http://PROMETHEUS.monitoring.SVC./",
    ],
)
def test_services_of_the_cluster(url: str) -> None:
    assert any(covers(entry, url) for entry in IN_CLUSTER)


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://metadata",  # a node's resolver may know a machine of that name
        "http://prometheus.monitoring",
        "http://localhost:9090",
        "http://127.0.0.1:9090",
        "http://[::1]:9090",
        "http://prometheus.svc.example.com",
        "http://.svc",
        "http://a..svc",
        "http://evil.example#.svc",
        "http://evil.example?.svc",
        "http://evil.example/.svc",
        "http://evil.example\\.svc",
        "http://x.svc@evil.example",
        "http://x.svc:9090@evil.example",
        "http://x.svc:port",
        "http://x.svc/../y",
        "http://x.svc/%2e%2e/y",
        "http://x.svc/\u202eabc",
        "ftp://x.svc",
        "file:///etc/passwd",
        "//x.svc",
        "",
    ],
)
def test_nothing_else(url: str) -> None:
    assert not any(covers(entry, url) for entry in IN_CLUSTER)


@pytest.mark.parametrize(
    ("entry", "url", "may"),
    [
        ("http://p.example", "http://p.example:1234/any/path", True),
        ("http://p.example", "https://p.example", False),
        ("http://p.example:9090", "http://p.example:9090", True),
        ("http://p.example:9090", "http://p.example", False),
        ("http://p.example:80", "http://p.example", True),
        ("http://p.example/team", "http://p.example/team", True),
        ("http://p.example/team", "http://p.example/team/a", True),
        ("http://p.example/team", "http://p.example/teams", False),
        ("http://p.example/team", "http://p.example", False),
        ("http://*.example", "http://p.q.example", True),
        ("http://*.example", "http://example", False),
        ("http://*.example", "http://badexample", False),
        ("http://p.example", "http://xp.example", False),
    ],
)
def test_an_entry_is_the_beginning_of_an_address(entry: str, url: str, may: bool) -> None:
    assert checked([entry]) == (entry,) and covers(entry, url) is may


@pytest.mark.parametrize(
    "entry", ["", "p.example", "ftp://p", "http://", "http://*", "http://a.*.b", "http://p:x", "http://u@p"]
)
def test_an_entry_that_is_none(entry: str) -> None:
    with pytest.raises(BadEntry, match="allowed: http"):
        checked([entry])


def test_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    image = "--runner-image=i"
    assert parse([image]).jobs.prometheus_urls == IN_CLUSTER
    assert parse([image, "--prometheus-url=http://p", "--prometheus-url=https://q"]).jobs.prometheus_urls == (
        "http://p",
        "https://q",
    )
    assert parse([image, "--prometheus-url="]).jobs.prometheus_urls == ()
    with pytest.raises(SystemExit):
        parse([image, "--prometheus-url=p:9090"])
    assert "--prometheus-url=p:9090: allowed: http(s)://HOST" in capsys.readouterr().err


def test_a_redirect_is_not_followed() -> None:
    """An address that is allowed could point at one that is not."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{server.server_port}/secret")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        holds, seen = ask_prometheus(f"http://127.0.0.1:{server.server_port}", "up")
    finally:
        server.shutdown()
        server.server_close()
    assert not holds and seen.startswith("Prometheus: 302") and len(asked) == 1
