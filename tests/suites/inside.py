"""The part of `make suites` that runs in a network of its own: brokers, and the tests against them.

``python -m tests.suites.inside SUITE SOURCE BINARIES FOLDER [TOXIPROXY]``; the outcomes are written to FOLDER/outcomes.json.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.suites import go_tests, python_tests
from tests.suites.brokers import PROXIES, READY_SECONDS, Brokers
from tests.suites.catalogue import FIRST_PORT, SUITES, TOXIPROXY_PORT


@contextlib.contextmanager
def proxies(command: list[str], brokers: Brokers) -> Iterator[None]:
    """Run toxiproxy with a proxy before each broker, named as the suites of sarama name them."""
    wanted = [
        {
            "name": f"kafka{broker}",
            "listen": f"127.0.0.1:{PROXIES + broker}",
            "upstream": f"127.0.0.1:{brokers.behind_proxy(broker)}",
            "enabled": True,
        }
        for broker in brokers.ids
    ]
    url = f"http://127.0.0.1:{TOXIPROXY_PORT}/populate"
    with subprocess.Popen([*command, "-port", str(TOXIPROXY_PORT)], stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + READY_SECONDS
            while True:
                try:
                    urllib.request.urlopen(url, json.dumps(wanted).encode(), timeout=5)
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.2)
            yield
        finally:
            process.kill()


def main() -> None:
    """Run one suite."""
    name, source, binaries, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
    (suite,) = [suite for suite in SUITES if suite.name == name]
    with contextlib.ExitStack() as stack:
        brokers = Brokers(folder, suite.brokers, FIRST_PORT, suite.settings)
        brokers.start()
        if suite.proxied:
            stack.enter_context(proxies(sys.argv[5:6], brokers))
        fetched = go_tests.Fetched(source, binaries)
        environment = {**suite.environment(brokers), **brokers.environment}
        tests = python_tests if suite.plugin else go_tests
        outcomes = tests.run(suite, fetched, environment, folder / "tests.jsonl")
    (folder / "outcomes.json").write_text(json.dumps(outcomes, indent=1))


if __name__ == "__main__":
    main()
