"""A chaos run: what was done to the cluster, and what it did."""

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
    variable,
)

EXPERIMENT = 'namespace="$namespace",experiment=~"$experiment"'


def build() -> Dashboard:
    """The dashboard."""
    made = page(
        "minikafka-chaos",
        "MiniKafka / Chaos run",
        "What was done to the cluster, and what it did. Red bands are faults, on every panel.",
    ).annotation(fault_bands())
    experiments = 'label_values(minikafka_chaos_experiment_phase{namespace="$namespace"}, experiment)'
    made.with_variable(variable("experiment", experiments, "Experiment", everything=True))
    _experiment(made)
    _clients(made)
    _cluster(made)
    return made


def _experiment(made: Dashboard) -> None:
    made.with_panel(stat("Faults made", f"sum(minikafka_chaos_experiment_faults{{{EXPERIMENT}}})"))
    made.with_panel(stat("Faults that are there", f"sum(minikafka_chaos_fault_active{{{EXPERIMENT}}}) or vector(0)"))
    made.with_panel(
        stat(
            "Lost records",
            f"sum(minikafka_chaos_experiment_lost_records{{{EXPERIMENT}}}) or vector(0)",
            bad_above=1,
            says="Acknowledged and gone; 0 until there is a verdict.",
        )
    )
    made.with_panel(
        stat(
            "Leader elections",
            f"round(sum(increase({of('minikafka_leader_elections_total')}[$__range])))",
            says="In the time shown.",
        )
    )
    made.with_panel(
        stat("Truncated records", f"round(sum(increase({of('minikafka_truncated_records_total')}[$__range])))")
    )
    made.with_panel(stat("ISR shrinks", f"round(sum(increase({of('minikafka_isr_shrinks_total')}[$__range])))"))
    made.with_panel(
        timeline(
            "Phase",
            (f"minikafka_chaos_experiment_phase{{{EXPERIMENT}}}", "{{experiment}} {{phase}}"),
            states={0: ("", "transparent"), 1: ("now", GREEN)},
        )
    )
    made.with_panel(
        timeline(
            "Faults",
            (
                f"max by (experiment, fault, target) (minikafka_chaos_fault_active{{{EXPERIMENT}}})",
                "{{fault}} {{target}}",
            ),
            states={1: ("there", RED)},
        )
    )


def _clients(made: Dashboard) -> None:
    made.with_row(Row("What clients see"))
    made.with_panel(series("Records taken", (f"sum({rate('minikafka_messages_in_total')})", "all brokers"), unit="wps"))
    made.with_panel(
        series(
            "Produce: how long",
            *(
                (quantile(share, "minikafka_request_duration_seconds", "cluster", api="Produce"), f"p{share * 100:g}")
                for share in (0.5, 0.99)
            ),
            unit="s",
        )
    )
    made.with_panel(
        series(
            "Errors",
            (
                or_none(per("error", rate("minikafka_request_errors_total")), "error"),
                "{{error}}",
            ),
        )
    )


def _cluster(made: Dashboard) -> None:
    made.with_row(Row("What the cluster does"))
    made.with_panel(
        timeline(
            "Brokers", (of("up", job="minikafka-brokers"), POD), states={0: ("silent", RED), 1: ("answers", GREEN)}
        )
    )
    made.with_panel(
        timeline(
            "Controller",
            (of("minikafka_active_controller"), POD),
            states={0: ("no", "transparent"), 1: ("controller", GREEN)},
        )
    )
    made.with_panel(
        series(
            "Partitions in trouble",
            (f"sum({of('minikafka_under_replicated_partitions')})", "under-replicated"),
            (f"sum({of('minikafka_under_min_isr_partitions')})", "under min ISR"),
            (f"sum({of('minikafka_offline_partitions')})", "offline"),
        )
    )
    made.with_panel(
        series(
            "At risk: unflushed records",
            (per("pod", of("minikafka:unflushed_records")), POD),
            says="What a power loss takes from each broker.",
        )
    )
    made.with_panel(
        series(
            "Records behind the leader", (f"max by (follower) ({of('minikafka_follower_lag')})", "broker {{follower}}")
        )
    )
    made.with_panel(series("Led partitions", (of("minikafka_leader_partitions"), POD)))
    made.with_panel(
        series(
            "ISR, elections, truncations",
            (f"sum({rate('minikafka_isr_shrinks_total')})", "shrinks"),
            (f"sum({rate('minikafka_isr_expands_total')})", "expansions"),
            (f"sum({rate('minikafka_leader_elections_total')})", "elections"),
            (f"sum({rate('minikafka_truncations_total')})", "truncations"),
            unit="ops",
        )
    )
    made.with_panel(
        series(
            "Refused for an epoch of the past",
            (f"sum({rate('minikafka_fenced_requests_total')})", "requests"),
            unit="ops",
        )
    )
