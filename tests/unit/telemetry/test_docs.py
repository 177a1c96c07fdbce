"""Pages that are made from declarations have all of them, in whole tables."""

from collections.abc import Callable

import pytest
from minikafka.config import BROKER_KEYS, TOPIC_KEYS
from minikafka.config.docs import configuration_page
from minikafka.telemetry.docs import events_page, metrics_page
from minikafka.telemetry.events import EVENTS, FIELDS
from minikafka.telemetry.metrics import METRICS


def test_everything_declared_is_on_its_page() -> None:
    assert all(f"| `{metric.name}` |" in metrics_page() for metric in METRICS)
    assert all(f"| `{name}` |" in events_page() for name in [*EVENTS, *FIELDS])
    assert all(f"| `{name}` |" in configuration_page() for name in [*BROKER_KEYS, *TOPIC_KEYS])


@pytest.mark.parametrize("page", [metrics_page, events_page, configuration_page])
def test_tables_have_as_many_cells_in_each_row(page: Callable[[], str]) -> None:
    cells = 0
    for line in page().splitlines():
        if not line.startswith("|"):
            cells = 0
            continue
        found = line.replace("\\|", "").count("|")
        cells = cells or found
        assert found == cells, line
