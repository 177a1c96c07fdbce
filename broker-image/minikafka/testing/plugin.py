"""The plugin of pytest: fixture `minikafka_cluster`, a cluster that is whole at the beginning of each test.

Clusters are kept between tests (`minikafka_scope`), one for each configuration, and healed after each. Where a test fails, what
was done to its cluster and what has become of the records stands below its traceback. Nothing heavy is imported before a test
asks for a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from minikafka.testing.cluster import MiniKafkaCluster

Scope = Literal["session", "package", "module", "class", "function"]
SCOPES: tuple[Scope, ...] = ("session", "package", "module", "class", "function")
MODES = ("processes", "in-process")
MARKER = "minikafka"
MARKER_KINDS = (
    ("brokers", int, "a whole number"),
    ("settings", dict, "a dictionary"),
    ("in_process", bool, "True or False"),
    ("tls", bool, "True or False"),
    ("users", dict, "a dictionary"),
)
MARKER_TAKES = frozenset(name for name, *_ in MARKER_KINDS)
_began = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare what can be chosen."""
    parser.addini("minikafka_mode", f"where brokers run: {' or '.join(MODES)}", default=MODES[0])
    parser.addini("minikafka_scope", f"how long a cluster is kept: {', '.join(SCOPES)}", default=SCOPES[0])
    parser.addini("minikafka_brokers", "how many brokers a cluster has", default="3")
    parser.addini("minikafka_settings", "settings of the brokers, KEY=VALUE, one a line", type="linelist", default=[])
    parser.addini("minikafka_tls", "whether clients need TLS", type="bool", default=False)
    parser.addini("minikafka_users", "who may log in, NAME=PASSWORD, one a line", type="linelist", default=[])
    group = parser.getgroup("minikafka")
    group.addoption("--minikafka-mode", choices=MODES, help="where brokers run (minikafka_mode)")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    takes = "brokers=3, settings={}, in_process=False, tls=False, users={}"
    config.addinivalue_line("markers", f"{MARKER}({takes}): the cluster that this test needs")


class ClusterPool:
    """The clusters that tests share: one for each of what is asked of `MiniKafkaCluster`."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._clusters: dict[str, MiniKafkaCluster] = {}

    def get(self, wanted: Mapping[str, Any]) -> MiniKafkaCluster:
        """The cluster of this configuration, whole; a new one where there is none."""
        from minikafka.testing.cluster import MiniKafkaCluster

        key = repr(wanted)  # users in their order too: the first is whose login clients get that name none
        if key not in self._clusters:
            folder = self._folders.mktemp("minikafka")
            self._clusters[key] = MiniKafkaCluster(**wanted, folder=folder)
        return self._clusters[key]

    def drop(self, cluster: MiniKafkaCluster) -> None:
        """End one that cannot be healed: the next test gets a new one."""
        self._clusters = {key: each for key, each in self._clusters.items() if each is not cluster}
        cluster.close()

    def close(self) -> None:
        """End all of them."""
        for cluster in self._clusters.values():
            cluster.close()
        self._clusters.clear()


def _scope(fixture_name: str, config: pytest.Config) -> Scope:
    del fixture_name
    scope: Scope = _chosen(config, "minikafka_scope", SCOPES)
    return scope


def _chosen(config: pytest.Config, name: str, allowed: tuple[Any, ...]) -> Any:
    value = config.getini(name)
    if value not in allowed:
        raise pytest.UsageError(f"{name}: {value!r} is not one of {', '.join(allowed)}")
    return value


@pytest.fixture(scope=_scope)
def minikafka_clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    """The clusters of this scope; they end with it."""
    pool = ClusterPool(tmp_path_factory)
    yield pool
    pool.close()


@pytest.fixture
def minikafka_cluster(minikafka_clusters: ClusterPool, request: pytest.FixtureRequest) -> Iterator[MiniKafkaCluster]:
    """A cluster whose brokers may be broken: see `minikafka.testing.MiniKafkaCluster`. It is healed after the test."""
    cluster = _cluster(minikafka_clusters, request)
    request.node.stash[_began] = time.time()
    yield cluster
    try:
        cluster.heal()
        cluster.delete_topics()
    except Exception:
        minikafka_clusters.drop(cluster)
        raise


def _cluster(clusters: ClusterPool, request: pytest.FixtureRequest) -> MiniKafkaCluster:
    """The cluster that a test asks for; where there can be none, one line says why, without a traceback of ours."""
    try:
        return clusters.get(_wanted(request.config, request.node.get_closest_marker(MARKER)))
    except pytest.UsageError as error:
        line = str(error)
    except Exception as error:
        from minikafka.testing import ToolTrouble, VerbRefused

        if not isinstance(error, ToolTrouble | VerbRefused):
            raise
        line = str(error)
    pytest.fail(f"minikafka_cluster: {line}", pytrace=False)


def _wanted(config: pytest.Config, marker: pytest.Mark | None) -> dict[str, Any]:
    """The arguments of `MiniKafkaCluster`: what the marker says, else the configuration."""
    asked = {} if marker is None else dict(marker.kwargs)
    if strange := [*(asked.keys() - MARKER_TAKES), *(() if marker is None else marker.args)]:
        raise pytest.UsageError(
            f"marker {MARKER}: {strange[0]!r} is unknown; allowed: {', '.join(sorted(MARKER_TAKES))}"
        )
    for name, kind, words in MARKER_KINDS:
        if name in asked and type(asked[name]) is not kind:
            shown = "what is given" if name == "users" else repr(asked[name])  # passwords
            raise pytest.UsageError(f"marker {MARKER}: {name}: {shown} is not {words}")
    settings = _lines(config, "minikafka_settings", "KEY=VALUE")
    users = _lines(config, "minikafka_users", "NAME=PASSWORD")
    mode = config.getoption("--minikafka-mode") or _chosen(config, "minikafka_mode", MODES)
    brokers = config.getini("minikafka_brokers")
    if not str(brokers).isdecimal():
        raise pytest.UsageError(f"minikafka_brokers: {brokers!r} is not a whole number")
    from minikafka_chaos.session.settings import as_text

    settings |= as_text("settings", asked.get("settings", {}))
    return {
        "brokers": int(asked.get("brokers", brokers)),
        "settings": dict(sorted(settings.items())),
        "in_process": asked.get("in_process", mode == "in-process"),
        "tls": asked.get("tls", config.getini("minikafka_tls")),
        "users": asked.get("users", users),
    }


def _lines(config: pytest.Config, name: str, form: str) -> dict[str, str]:
    found = {}
    for line in config.getini(name):
        key, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"{name}: {line!r} is not {form}")
        found[key.strip()] = value.strip()
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach what was done to the cluster of a test that fails, and the verdict on its records."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("minikafka_cluster")
    if call.when == "call" and report.failed and cluster is not None:
        report.sections.append(("minikafka", _report_text(cluster, item.stash[_began])))
    return report


def _report_text(cluster: MiniKafkaCluster, began: float) -> str:
    from minikafka.testing.report import report

    try:
        return report(cluster, began)
    except Exception as error:  # the test's own failure is what matters
        return f"no report: {type(error).__name__}: {error}"
