"""One partition: how far each replica's log reaches, how much of it is committed and how much is on stable storage."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from tools.dashboards.pieces import GREEN, POD, YELLOW, fault_bands, of, page, series, timeline, variable

ONE = {"topic": "$topic", "partition": "$partition"}


def build() -> Dashboard:
    """The dashboard."""
    made = page(
        "minikafka-partition",
        "MiniKafka / Partition",
        "How far each replica's log reaches, what of it is committed, and what of it a power loss would take.",
    ).annotation(fault_bands())
    made.with_variable(variable("topic", f"label_values({of('minikafka_replica_role')}, topic)", "Topic"))
    made.with_variable(
        variable("partition", f"label_values({of('minikafka_replica_role', topic='$topic')}, partition)", "Partition")
    )
    made.with_row(Row("Logs"))
    for title, metric, says in (
        ("Log end offset", "minikafka_log_end_offset", "Offset of the next record."),
        ("High watermark", "minikafka_high_watermark", "Records below are committed: on every in-sync replica."),
        ("Flushed offset", "minikafka_log_flushed_offset", "Records below are on stable storage."),
    ):
        made.with_panel(series(title, (of(metric, **ONE), POD), says=says))
    made.with_panel(
        series(
            "At risk: unflushed records",
            (of("minikafka:unflushed_records", **ONE), POD),
            says="Log end offset minus flushed offset: what a power loss takes from this replica.",
        )
    )
    made.with_panel(
        series(
            "Not committed yet",
            (f"{of('minikafka_log_end_offset', **ONE)} - {of('minikafka_high_watermark', **ONE)}", POD),
            says="Records that no consumer may see.",
        )
    )
    made.with_panel(series("Behind the leader", (of("minikafka_follower_lag", **ONE), "broker {{follower}}")))
    made.with_row(Row("Replicas"))
    made.with_panel(
        timeline(
            "Roles",
            (of("minikafka_replica_role", **ONE), POD),
            states={0: ("none", "transparent"), 1: ("follower", YELLOW), 2: ("leader", GREEN)},
        )
    )
    made.with_panel(series("Leader epoch", (of("minikafka_leader_epoch", **ONE), POD), width=12))
    made.with_panel(
        series(
            "In-sync replicas",
            (of("minikafka_isr_size", **ONE), POD),
            (f"max({of('minikafka_partition_replicas', **ONE)})", "replicas"),
            says="As each broker knows it.",
        )
    )
    made.with_panel(series("Size", (of("minikafka_log_size_bytes", **ONE), POD), unit="bytes"))
    made.with_panel(series("Log start offset", (of("minikafka_log_start_offset", **ONE), POD)))
    return made
