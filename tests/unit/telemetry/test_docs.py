"""The generated pages are what the declarations say."""

from pathlib import Path

import pytest
from minikafka.config import BROKER_KEYS, TOPIC_KEYS
from minikafka.config.docs import configuration_page
from minikafka.telemetry.docs import PAGES, events_page, main, metrics_page
from minikafka.telemetry.events import EVENTS, FIELDS
from minikafka.telemetry.metrics import METRICS

DOCS = Path(__file__).parents[3] / "docs"


def test_the_committed_pages_are_up_to_date() -> None:
    assert main(["--check", "--docs", str(DOCS)]) == 0


def test_everything_declared_is_on_its_page() -> None:
    assert all(f"| `{metric.name}` |" in metrics_page() for metric in METRICS)
    assert all(f"| `{name}` |" in events_page() for name in [*EVENTS, *FIELDS])
    assert all(f"| `{name}` |" in configuration_page() for name in [*BROKER_KEYS, *TOPIC_KEYS])


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_tables_have_as_many_cells_in_each_row(page: object) -> None:
    assert callable(page)
    cells = 0
    for line in page().splitlines():
        if not line.startswith("|"):
            cells = 0
            continue
        found = line.replace("\\|", "").count("|")
        cells = cells or found
        assert found == cells, line


def test_check_finds_a_stale_page_and_write_mends_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", "--docs", str(tmp_path)]) == 1
    assert "metrics.md is not what is declared" in capsys.readouterr().err
    assert main(["--write", "--docs", str(tmp_path)]) == 0
    assert main(["--check", "--docs", str(tmp_path)]) == 0
    (tmp_path / "events.md").write_text("old")
    assert main(["--check", "--docs", str(tmp_path)]) == 1


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    assert main(["--check", "--docs", str(tmp_path / "absent")]) == 2
