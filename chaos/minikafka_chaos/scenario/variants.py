"""The variants of a scenario: files of their own, each with one value of the setting that the scenario is about.

A story is written once, `chaos/scenarios/<story>.yaml`. The files with fixed settings are made from it (`make docs`), so that
each can be run, shown and applied by its name alone.
"""

from __future__ import annotations

VARIANTS: dict[str, tuple[str, dict[str, str]]] = {
    "kip-101-data-loss": (
        "minikafka.truncation.mode",
        {"leader-epoch": "leader_epoch", "high-watermark": "high_watermark"},
    ),
    "kip-101-divergence": (
        "minikafka.truncation.mode",
        {"leader-epoch": "leader_epoch", "high-watermark": "high_watermark"},
    ),
    "last-replica-standing": ("minikafka.unclean.shutdown.policy", {"fence": "fence", "trust-isr": "trust_isr"}),
}
"""Story -> the setting that it is about, and the files: suffix of the name -> value of the setting."""

NAMES: dict[str, tuple[str, ...]] = {
    story: tuple(f"{story}.{suffix}" for suffix in values) for story, (_, values) in VARIANTS.items()
}
"""Story -> the names of its variants."""
STORY_OF = {name: story for story, names in NAMES.items() for name in names}
"""Variant -> its story."""


def variant(story: str, text: str, suffix: str) -> str:
    """Write the story's text with one value of its setting, under a name of its own. ValueError when it lacks either place."""
    setting, values = VARIANTS[story]
    value = values[suffix]
    name, entry = f"  name: {story}\n", f"{{name: {setting}, value: "
    before, found, rest = text.partition(entry)
    if not found or text.count(name) != 1:
        raise ValueError(f"{story}: needs the lines {name.strip()!r} and '- {entry}...}}'")
    _, brace, after = rest.partition("}")
    if "expect:" in before:
        raise ValueError(f"{story}: cluster.config comes before expect")
    made = f"# Made from {story}.yaml by `make docs`; do not edit.\n"
    same = f"# The same: minikafka chaos run {story} --set {setting}={value}\n"
    return made + same + f"{before}{entry}{value}{brace}{after}".replace(name, f"  name: {story}.{suffix}\n")
