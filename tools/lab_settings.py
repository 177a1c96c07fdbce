"""The settings of clusters on this machine that are not the defaults of a broker: a part of ``docs/reference/commands.md``."""

from __future__ import annotations

from minikafka.config import BROKER_KEYS
from minikafka.local.layout import UP_SETTINGS, lab_defaults
from minikafka.testing.cluster import SETTINGS

BROKERS = 3


def settings_table() -> str:
    """A row for each setting that `minikafka up` or the cluster for tests changes, of three brokers."""
    common = lab_defaults(BROKERS)
    by_up, by_fixture = common | UP_SETTINGS, common | SETTINGS
    rows = ["| setting | default | `minikafka up` | cluster for tests |", "|---|---|---|---|"]
    for name in sorted(by_up | by_fixture):
        default = BROKER_KEYS[name].default_text
        values = (default, by_up.get(name, default), by_fixture.get(name, default))
        if len(set(values)) > 1:
            rows.append(f"| `{name}` | {' | '.join(f'`{value}`' for value in values)} |")
    return "\n".join(rows)
