"""What the dashboards are put together from: Grafana's builders with this project's habits."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders.dashboard import (
    AnnotationQuery,
    Dashboard,
    DatasourceVariable,
    QueryVariable,
    ThresholdsConfig,
)
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.stat import Panel as StatPanel
from grafana_foundation_sdk.builders.statetimeline import Panel as TimelinePanel
from grafana_foundation_sdk.builders.timeseries import Panel as SeriesPanel
from grafana_foundation_sdk.models import common, dashboard

SOURCE = common.DataSourceRef(type_val="prometheus", uid="$datasource")
COLUMNS = 24
RATE = "$__rate_interval"
CLUSTER = 'namespace="$namespace",cluster="$cluster"'
"""Every expression about brokers is about one cluster."""

Query = tuple[str, str]
"""(expression, legend)"""
RED, GREEN, YELLOW = "red", "green", "yellow"
POD = "{{pod}}"
"""The legend of what is shown by broker."""


def of(metric: str, **labels: str) -> str:
    """A metric of the chosen cluster, with these labels."""
    more = "".join(f',{name}="{value}"' for name, value in labels.items())
    return f"{metric}{{{CLUSTER}{more}}}"


def rate(metric: str, **labels: str) -> str:
    """Its growth a second."""
    return f"rate({of(metric, **labels)}[{RATE}])"


def per(labels: str, expression: str) -> str:
    """Summed over all but these labels."""
    return f"sum by ({labels}) ({expression})"


def quantile(share: float, histogram: str, by: str, **labels: str) -> str:
    """A quantile of a histogram of durations."""
    return f"histogram_quantile({share}, {per(f'{by}, le', rate(f'{histogram}_bucket', **labels))})"


def or_none(expression: str, label: str) -> str:
    """A line at 0 where there is nothing to show, for that is good news and not a gap."""
    return f'{expression} or label_replace(vector(0), "{label}", "none", "", "")'


def targets(queries: Sequence[Query]) -> list[Dataquery]:
    """Prometheus queries, named A, B, ... as Grafana does."""
    return [
        Dataquery().datasource(SOURCE).ref_id(chr(ord("A") + index)).expr(expression).legend_format(legend)
        for index, (expression, legend) in enumerate(queries)
    ]


def series(
    title: str, *queries: Query, unit: str = "short", says: str = "", width: int = 8, stacked: bool = False
) -> SeriesPanel:
    """Lines over time."""
    panel = (
        SeriesPanel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .unit(unit)
        .min(0)
        .height(7)
        .span(width)
        .line_width(1)
        .fill_opacity(15 if stacked else 5)
        .show_points(common.VisibilityMode.NEVER)
        .legend(common_builders.VizLegendOptions().show_legend(True).placement(common.LegendPlacement.BOTTOM))
        .tooltip(
            common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
        )
        .targets(list(targets(queries)))
    )
    if stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    return panel


def stat(
    title: str,
    expression: str,
    *,
    bad_above: float | None = None,
    good: float | None = None,
    unit: str = "none",
    says: str = "",
) -> StatPanel:
    """One number now. ``bad_above``: red over it; ``good``: green at just this number."""
    steps = [dashboard.Threshold(value=None, color=GREEN)]
    if bad_above is not None:
        steps.append(dashboard.Threshold(value=bad_above, color=RED))
    if good is not None:
        steps = [
            dashboard.Threshold(value=None, color=RED),
            dashboard.Threshold(value=good, color=GREEN),
            dashboard.Threshold(value=good + 1, color=RED),
        ]
    return (
        StatPanel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .unit(unit)
        .height(4)
        .span(3)
        .graph_mode(common.BigValueGraphMode.NONE)
        .color_mode(common.BigValueColorMode.VALUE)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps))
        .targets(list(targets([(expression, "")])))
    )


def timeline(
    title: str, *queries: Query, states: dict[int, tuple[str, str]], says: str = "", width: int = 12
) -> TimelinePanel:
    """One band a series, coloured by state. ``states``: (text, colour) of each value."""
    mapping = dashboard.ValueMap(
        options={
            str(value): dashboard.ValueMappingResult(text=text, color=color, index=index)
            for index, (value, (text, color)) in enumerate(states.items())
        }
    )
    return (
        TimelinePanel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .height(7)
        .span(width)
        .mappings([mapping])
        .merge_values(True)
        .show_value(common.VisibilityMode.NEVER)
        .targets(list(targets(queries)))
    )


def variable(name: str, query: str, label: str, *, everything: bool = False) -> QueryVariable:
    """A list to choose from; ``everything`` adds All."""
    found = (
        QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(query)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
    )
    if everything:
        found.multi(True).include_all(True).all_value(".*").current(
            dashboard.VariableOption(text="All", value="$__all")
        )
    return found


def fault_bands() -> AnnotationQuery:
    """A band over all panels for each fault, as long as it is there."""
    return (
        AnnotationQuery()
        .name("faults")
        .datasource(SOURCE)
        .enable(True)
        .icon_color("red")
        .expr('max by (experiment, fault, target) (minikafka_chaos_fault_active{namespace="$namespace"})')
        .title_format("{{fault}} {{target}}")
        .text_format("experiment {{experiment}}")
        .tag_keys("experiment,fault,target")
        .step("1s")
    )


def page(uid: str, title: str, says: str) -> Dashboard:
    """An empty dashboard with the choice of data source, namespace and cluster."""
    return (
        Dashboard(title)
        .uid(uid)
        .description(says)
        .tags(["minikafka"])
        .timezone("browser")
        .refresh("5s")
        .time("now-15m", "now")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .with_variable(DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(variable("namespace", "label_values(minikafka_build_info, namespace)", "Namespace"))
        .with_variable(
            variable("cluster", 'label_values(minikafka_build_info{namespace="$namespace"}, cluster)', "Cluster")
        )
    )
