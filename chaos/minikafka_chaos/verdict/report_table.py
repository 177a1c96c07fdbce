"""A verdict on a terminal: the word first, then each claim, then the evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from minikafka_chaos.verdict.anomalies import AnomalyKind, Severity
from minikafka_chaos.verdict.verdict import NOT_KNOWN_TO_BROKERS, Outcome, Verdict

COLOURS = {
    Outcome.PASSED: "bold green",
    Outcome.FAILED: "bold red",
    Outcome.INCONCLUSIVE: "bold yellow",
    Outcome.ABORTED: "bold yellow",
    Outcome.ERROR: "bold magenta",
}
EVIDENCE_SHOWN_MAX = 5
VALUES_WIDTH_MIN = 30
NOT_JUDGED = "what was sent (twice, in which order, in vain), read and processed: brokers do not know it"


def print_verdict(console: Console, verdict: Verdict, more: Iterable[tuple[str, str]] = ()) -> None:
    """Print a verdict; `more` are further rows (name, value), such as where the report is."""
    colour = COLOURS[verdict.outcome]
    table = Table(
        title=f"[{colour}]{verdict.outcome.value}[/]: {escape(verdict.summary)}",
        title_justify="left",
        show_header=False,
    )
    table.add_column()
    table.add_column(overflow="fold", min_width=VALUES_WIDTH_MIN)  # else claims leave three letters of 80 columns
    for name, value in _rows(verdict):
        table.add_row(name, escape(value))
    if verdict.findings:
        table.add_section()
    for finding in verdict.findings:
        if finding.detail in NOT_KNOWN_TO_BROKERS:
            continue  # one row for all of them
        word = {True: "[green]held[/]", False: "[red]NOT HELD[/]", None: "[yellow]not judged[/]"}[finding.held]
        table.add_row(finding.claim, word + (f": {escape(finding.detail)}" if finding.detail else ""))
    if any(finding.detail in NOT_KNOWN_TO_BROKERS for finding in verdict.findings):
        table.add_row("[yellow]not judged[/]", NOT_JUDGED)
    for problem in verdict.problems:
        table.add_row("[yellow]problem[/]", escape(problem))
    rows = list(more)
    if rows:
        table.add_section()
    for name, value in rows:
        table.add_row(name, escape(value))
    console.print(table)
    shown: Counter[AnomalyKind] = Counter()
    for anomaly in verdict.anomalies:
        shown[anomaly.kind] += 1
        if anomaly.severity is Severity.ERROR and shown[anomaly.kind] <= EVIDENCE_SHOWN_MAX:
            console.print(f"[red]{anomaly.kind.value}[/]: {escape(anomaly.message)}", highlight=False)


def _rows(verdict: Verdict) -> Iterable[tuple[str, str]]:
    counts = verdict.counts
    if not counts:
        return
    if counts["sent"] is not None:
        yield "records sent", f"{counts['sent']:,}"
    yield "acknowledged", f"{counts['acknowledged']:,}"
    if counts["failed"] is not None:
        unknown = f"{counts['unknown']:,} ({counts['unknown_but_there']:,} there)"
        yield "failed / unknown", f"{counts['failed']:,} / {unknown}"
    yield "read back", f"{counts['read']:,}"
    yield "lost", f"{counts['lost']:,}"
    for name, word in (("deleted", "deleted"), ("accepted_loss", "given up"), ("phantoms", "phantoms")):
        if counts[name]:
            yield word, f"{counts[name]:,}"
    for name in ("duplicated", "reordered"):
        if counts[name] is not None:
            yield name, f"{counts[name]:,}"
    compared = counts["replicas_compared"]
    divergent = f"{counts['divergent']:,} ({compared} replica logs compared)"
    yield "divergent", "logs not compared" if compared is None else divergent
    if counts["longest_ack_gap_s"] is not None:
        yield "longest ack gap", f"{counts['longest_ack_gap_s']:.2f} s ({counts['longest_ack_gap_in']})"
