"""All targets."""

from __future__ import annotations

from typing import Final

from tests.fuzz.target import Target
from tests.fuzz.targets import broker, documents, evidence, logs, protocol, records, security

TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for module in (protocol, records, logs, security, documents, evidence, broker)
    for target in module.TARGETS
}
"""By name."""
