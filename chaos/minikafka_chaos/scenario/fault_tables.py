"""The tables of `docs/reference/faults.md`: every verb with what it needs, and which ground can do it."""

from __future__ import annotations

from minikafka.telemetry.fault_verbs import LACKS, RULES, Rule


def verb_table() -> str:
    """Return what each verb does."""
    lines = ["| verb | what it does | parameters | is undone |", "|---|---|---|---|"]
    for verb, rule in RULES.items():
        lines.append(f"| `{verb.value}` | {rule.does} | {_parameters(rule)} | {rule.undone or '-'} |")
    return "\n".join(lines)


def _parameters(rule: Rule) -> str:
    targets = [f"`{name}`" for name in rule.needs] + [f"[`{name}`]" for name in rule.takes]
    if rule.peers:
        targets.append("`peer`")
    return ", ".join(targets) or ("no target" if rule.everywhere else "-")


def ground_table() -> str:
    """Ground by verb; a number is a reason below."""
    reasons: dict[str, int] = {}
    lines = [f"| verb | {' | '.join(LACKS)} |", "|---" * (len(LACKS) + 1) + "|"]
    for verb in RULES:
        cells = []
        for lacks in LACKS.values():
            reason = lacks.get(verb)
            cells.append("yes" if reason is None else f"no ({reasons.setdefault(reason, len(reasons) + 1)})")
        lines.append(f"| `{verb.value}` | {' | '.join(cells)} |")
    lines += ["", *(f"{number}. {reason}" for reason, number in reasons.items())]
    return "\n".join(lines)
