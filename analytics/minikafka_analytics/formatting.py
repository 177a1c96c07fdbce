"""Numbers and faults in plain words: one way to say each, wherever it is said."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.telemetry.fault_verbs import TOGETHER, Verb

_NAMES = {verb.kind: verb.plain_name for verb in Verb}
_TOGETHER = {frozenset(verb.kind for verb in verbs): name for verbs, name in TOGETHER.items()}
FAULT_MEANS = {verb.plain_name: verb.rule.means for verb in Verb if verb.rule.means}
"""What happened, for each name of a fault."""


def fault_name(kinds: Sequence[str]) -> str:
    """ "power loss" for a kill and a wiped unflushed volume; kinds without a name in common are listed in their order."""
    known = _TOGETHER.get(frozenset(kinds))
    return known or ", then ".join(_NAMES.get(kind, kind.replace("_", " ")) for kind in dict.fromkeys(kinds))


def span(low: int, high: int) -> str:
    """Offsets from `low` up to but without `high`: "offset 7", "offsets 7 to 9"."""
    return f"offset {low:,}" if high - low == 1 else f"offsets {low:,} to {high - 1:,}"


def seconds(value: float | None) -> str:
    """3 significant digits at most, in the unit that reads best: 4 ms, 0.62 s, 12.5 s, 3 min 05 s."""
    if value is None:
        return "–"
    if value < 0:
        return f"−{seconds(-value)}"
    if value < 0.0005:
        return f"{value * 1e3:.1f} ms"
    if value < 0.1:
        return f"{value * 1e3:.0f} ms"
    if value < 10:
        return f"{value:.2f} s"
    if value < 100:
        return f"{value:.1f} s"
    return f"{int(value // 60)} min {int(value % 60):02d} s"


def number(value: float | None) -> str:
    """Thousands apart; whole numbers without decimals."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:,.1f}"


def size(value: int | None) -> str:
    """Bytes in binary units, as disks and Kafka's settings count them."""
    if value is None:
        return "–"
    amount = float(value)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def count(value: int, noun: str) -> str:
    """1 record, 2 records, 12,345 records."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def these(words: Sequence[object]) -> str:
    """1; 1 and 2; 1, 2 and 3."""
    texts = [str(word) for word in words]
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else "".join(texts)


def brokers(ids: Sequence[int]) -> str:
    """broker 2; brokers 1 and 3."""
    return f"broker{'' if len(ids) == 1 else 's'} {these(ids)}" if ids else "no broker"
