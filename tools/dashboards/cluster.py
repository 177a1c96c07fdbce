"""The cluster: is it whole, what does it carry, where does the time go."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from tools.dashboards.pieces import (
    GREEN,
    POD,
    RED,
    fault_bands,
    of,
    or_none,
    page,
    per,
    quantile,
    rate,
    series,
    stat,
    timeline,
)


def build() -> Dashboard:
    """The dashboard."""
    made = page(
        "minikafka-cluster", "MiniKafka / Cluster", "Is it whole, what does it carry, and where does the time go?"
    ).annotation(fault_bands())
    for part in (_stats, _traffic, _requests, _replication, _controller, _groups, _resources):
        part(made)
    return made


def _stats(made: Dashboard) -> None:
    made.with_panel(stat("Brokers that answer", f"sum({of('up', job='minikafka-brokers')})"))
    made.with_panel(stat("Controllers", f"sum({of('minikafka_active_controller')})", good=1, says="Must be 1."))
    for title, metric in (
        ("Offline partitions", "minikafka_offline_partitions"),
        ("Under-replicated", "minikafka_under_replicated_partitions"),
        ("Under min ISR", "minikafka_under_min_isr_partitions"),
    ):
        made.with_panel(stat(title, f"sum({of(metric)})", bad_above=1))
    made.with_panel(stat("At min ISR", f"sum({of('minikafka_at_min_isr_partitions')})"))
    unclean = f"sum({of('minikafka_leader_elections_total', clean='false')})"
    made.with_panel(stat("Unclean elections", unclean, bad_above=1, says="From outside the ISR: records may be lost."))
    made.with_panel(
        stat(
            "Unflushed records",
            f"sum({of('minikafka:unflushed_records')})",
            says="On no stable storage yet, on all replicas together: what a loss of power everywhere would take.",
        )
    )


def _traffic(made: Dashboard) -> None:
    made.with_row(Row("Traffic"))
    made.with_panel(
        series("Records in", (per("topic", rate("minikafka_topic_messages_in_total")), "{{topic}}"), unit="wps")
    )
    made.with_panel(series("Bytes in", (per("topic", rate("minikafka_topic_bytes_in_total")), "{{topic}}"), unit="Bps"))
    made.with_panel(
        series("Bytes out", (per("topic", rate("minikafka_topic_bytes_out_total")), "{{topic}}"), unit="Bps")
    )
    made.with_panel(
        series(
            "Replication",
            (per("pod", rate("minikafka_replication_bytes_in_total")), "in " + POD),
            (per("pod", rate("minikafka_replication_bytes_out_total")), "out " + POD),
            unit="Bps",
        )
    )
    made.with_panel(
        series(
            "Refused",
            (per("topic", rate("minikafka_topic_failed_produce_requests_total")), "produce {{topic}}"),
            (per("topic", rate("minikafka_topic_failed_fetch_requests_total")), "fetch {{topic}}"),
            unit="reqps",
            says="Requests with an error for at least one partition. Clients ask again after most of them.",
        )
    )
    made.with_panel(
        series("Connections", (per("pod, listener", of("minikafka_listener_connections")), POD + " {{listener}}"))
    )


def _requests(made: Dashboard) -> None:
    made.with_row(Row("Requests"))
    durations = "minikafka_request_duration_seconds"
    for api, more in (("Produce", "waiting for replicas included"), ("Fetch", "waiting for data included")):
        made.with_panel(
            series(
                f"{api}: how long",
                *(
                    (quantile(share, durations, "cluster", api=api), f"p{share * 100:g}")
                    for share in (0.5, 0.99, 0.999)
                ),
                unit="s",
                says=f"Of clients, {more}.",
            )
        )
    phases = per("phase", rate("minikafka_request_phase_seconds_total", api="Produce"))
    requests = rate(f"{durations}_count", api="Produce")
    made.with_panel(
        series(
            "Produce: where the time goes",
            (f"{phases} / ignoring (phase) group_left () sum({requests})", "{{phase}}"),
            unit="s",
            stacked=True,
            says="Mean seconds a request, by phase. remote: waiting for replicas.",
        )
    )
    made.with_panel(series("Requests", (per("api", rate(f"{durations}_count")), "{{api}}"), unit="reqps"))
    made.with_panel(
        series(
            "Errors",
            (
                or_none(per("api, error", rate("minikafka_request_errors_total")), "error"),
                "{{api}} {{error}}",
            ),
            unit="short",
        )
    )
    made.with_panel(
        series(
            "Waiting",
            (per("pod", of("minikafka_waiting_produces")), "produce " + POD),
            (per("pod", of("minikafka_waiting_fetches")), "fetch " + POD),
            says="Produces wait for replicas, fetches for data.",
        )
    )


def _replication(made: Dashboard) -> None:
    made.with_row(Row("Replication"))
    made.with_panel(
        series(
            "In-sync replicas come and go",
            (f"sum({rate('minikafka_isr_shrinks_total')})", "shrinks"),
            (f"sum({rate('minikafka_isr_expands_total')})", "expansions"),
            (f"sum({rate('minikafka_failed_isr_updates_total')})", "refused"),
            unit="ops",
        )
    )
    made.with_panel(
        series(
            "Records behind the leader",
            (f"max by (follower) ({of('minikafka_follower_lag')})", "broker {{follower}}"),
            says="The worst partition of each follower, as leaders count; also of one that is gone.",
        )
    )
    made.with_panel(
        series(
            "Truncated records",
            (per("pod", rate("minikafka_truncated_records_total")), POD),
            unit="wps",
            says="Cut off logs for the leader does not have them.",
        )
    )


def _controller(made: Dashboard) -> None:
    made.with_row(Row("Controller"))
    made.with_panel(
        timeline(
            "Who is the controller",
            (of("minikafka_active_controller"), POD),
            states={0: ("no", "transparent"), 1: ("controller", GREEN)},
        )
    )
    made.with_panel(
        timeline("Fenced", (of("minikafka_broker_fenced"), POD), states={0: ("no", GREEN), 1: ("fenced", RED)})
    )
    made.with_panel(
        series(
            "Leader elections", (per("clean", rate("minikafka_leader_elections_total")), "clean={{clean}}"), unit="ops"
        )
    )
    commits = "minikafka_controller_commit_duration_seconds"
    made.with_panel(
        series(
            "Transactions of the controller",
            (f"sum({rate(f'{commits}_sum')}) / (sum({rate(f'{commits}_count')}) > 0) or vector(0)", "mean"),
            unit="s",
            says="With the cluster store: a failover waits for one.",
        )
    )
    made.with_panel(series("Controller epoch", (f"max by (pod) ({of('minikafka_controller_epoch')})", POD)))


def _groups(made: Dashboard) -> None:
    made.with_row(Row("Consumer groups"))
    made.with_panel(series("Lag", (per("group, topic", of("minikafka:group_lag")), "{{group}} {{topic}}"), width=12))
    made.with_panel(series("Members", (per("group", of("minikafka_group_members")), "{{group}}"), width=12))


def _resources(made: Dashboard) -> None:
    made.with_row(Row("Resources"))
    made.with_panel(
        series("Processor", (per("pod", rate("process_cpu_seconds_total")), POD), unit="short", says="Cores.")
    )
    made.with_panel(series("Memory", (per("pod", of("process_resident_memory_bytes")), POD), unit="bytes"))
    made.with_panel(
        series(
            "Handler idle",
            (of("minikafka:request_handler_idle:ratio"), POD),
            unit="percentunit",
            says="Of the one thread that serves requests. Below 30 % clients feel it.",
        )
    )
    made.with_panel(series("Disk writes", (per("pod", rate("minikafka_disk_written_bytes_total")), POD), unit="Bps"))
    made.with_panel(
        series(
            "Flushes",
            (per("pod", rate("minikafka_log_flush_duration_seconds_count")), POD),
            unit="ops",
            says="fsyncs of logs.",
        )
    )
    made.with_panel(
        series(
            "Free on disk",
            (f"{of('minikafka_log_dir_free_bytes')} / {of('minikafka_log_dir_size_bytes')}", POD + " {{dir}}"),
            unit="percentunit",
        )
    )
