"""A plugin of pytest, by which kafka-python's own tests find the brokers of `make suites`, and what each came to is kept.

Their fixtures start Apache Kafka from a folder, or take a broker that runs: then they skip SASL. Here they take one that runs for
each transport. Their sdist lacks two of their modules: ``test`` itself, without which Python takes its own, and ``test.service``.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest
from kafka import KafkaAdminClient

from tests.suites.brokers import ACCOUNTS, HOST

test = ModuleType("test")
test.__path__ = [str(Path("test").absolute())]
sys.modules |= {"test": test, "test.service": MagicMock()}
fixtures: Any = importlib.import_module("test.integration.fixtures")


class RunningKafka(fixtures.KafkaFixture):
    """A broker that runs already."""

    @classmethod
    def instance(
        cls,
        broker_id: int,
        transport: str = "PLAINTEXT",
        sasl_mechanism: str | None = None,
        partitions: int = 4,
        tmp_dir: Any = None,
    ) -> RunningKafka:
        """Return the listener of this transport."""
        port = json.loads(os.environ["SUITE_PORTS"])[transport]
        kafka = cls(
            HOST,
            port,
            broker_id,
            transport=transport,
            sasl_mechanism=sasl_mechanism,
            partitions=partitions,
            external=True,
        )
        if sasl_mechanism:
            kafka.broker_user, kafka.broker_password = ACCOUNTS[sasl_mechanism]
        if tmp_dir:
            kafka.ssl_dir = str(tmp_dir)
            Path(tmp_dir, "ca-cert").symlink_to(os.environ["SUITE_CA"])
        return kafka

    def get_topic_names(self) -> list[str]:
        """List topics, which they do by Apache Kafka's tool."""
        with KafkaAdminClient(**fixtures.client_params(self)) as admin:
            return admin.list_topics()


fixtures.KafkaFixture = RunningKafka
_outcomes: dict[str, str] = {}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Hold that what never ends has failed."""
    _outcomes.update({item.nodeid: "failed" for item in session.items})
    _keep()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep how a test ended, or its set-up or tear-down where that did not pass."""
    if report.when == "call" or report.outcome != "passed":
        _outcomes[report.nodeid] = report.outcome
        _keep()


def _keep() -> None:
    Path(os.environ["SUITE_OUTCOMES"]).write_text(json.dumps(_outcomes))
