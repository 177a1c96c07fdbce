"""The operator: does it act, does it get through, and what does it write."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from tools.dashboards.pieces import GREEN, RATE, RED, page, series, stat, timeline

PREFIX = "minikafka_operator"


def build() -> Dashboard:
    """The dashboard. Its expressions are about the operator, whatever cluster is chosen, apart from the conditions."""
    made = page(
        "minikafka-operator", "MiniKafka / Operator", "Does the operator act, does it get through, what does it write?"
    )
    made.with_panel(stat("Acting operators", f"sum({PREFIX}_leader)", good=1, says="Must be 1, or 0 for some seconds."))
    made.with_panel(stat("Clusters", f"sum({PREFIX}_clusters)"))
    made.with_panel(
        stat(
            "Clusters not ready",
            'sum(minikafka_cluster_condition{type="Ready",status="True"} == bool 0)',
            bad_above=1,
        )
    )
    made.with_panel(stat("Pods made again", f"sum({PREFIX}_pods_replaced_total)"))
    made.with_panel(
        stat(
            "Last success",
            f"time() - min({PREFIX}_last_success_timestamp_seconds)",
            unit="s",
            says="Of the cluster that waits longest.",
        )
    )
    made.with_row(Row("Reconciliations"))
    made.with_panel(
        series(
            "By outcome",
            (f"sum by (outcome) (rate({PREFIX}_reconciliations_total[{RATE}]))", "{{outcome}}"),
            unit="ops",
            says="steady: nothing to do.",
        )
    )
    buckets = f"sum by (le) (rate({PREFIX}_reconciliation_duration_seconds_bucket[{RATE}]))"
    made.with_panel(
        series("How long", *((f"histogram_quantile({q}, {buckets})", f"p{q * 100:g}") for q in (0.5, 0.99)), unit="s")
    )
    made.with_panel(
        series(
            "Writes",
            (
                f'sum by (verb, kind) (rate({PREFIX}_writes_total[{RATE}])) or label_replace(vector(0), "kind", "none", "", "")',
                "{{verb}} {{kind}}",
            ),
            unit="ops",
            says="None at steady state.",
        )
    )
    made.with_panel(
        series(
            "Requests to the API server",
            (f"sum by (verb, code) (rate({PREFIX}_api_requests_total[{RATE}]))", "{{verb}} {{code}}"),
            unit="reqps",
            width=12,
        )
    )
    made.with_panel(
        timeline(
            "Ready",
            ('minikafka_cluster_condition{type="Ready",status="True"}', "{{namespace}}/{{cluster}}"),
            states={0: ("not ready", RED), 1: ("ready", GREEN)},
        )
    )
    return made
