"""Which Prometheus a probe may ask: who writes an experiment must not have its runner fetch any address. No I/O.

Who installs the controller says which (chart value `prometheusUrls`). An entry is the beginning of an address: scheme, host, and
where they are given port and path. A host that begins with ``*.`` stands for all names below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit

from minikafka_chaos.scenario.scenario import ScenarioSpec

IN_CLUSTER: Final = tuple(
    f"{scheme}://*.{domain}" for scheme in ("http", "https") for domain in ("svc", "svc.cluster.local")
)
"""Services of the Kubernetes cluster, by names that mean nothing else anywhere. A short name would be looked for in the
domains that the node's resolver knows, too."""

_PORTS: Final = {"http": 80, "https": 443}
_WILD: Final = "*."


class BadEntry(ValueError):
    """An entry that is none: one line."""


def checked(entries: Iterable[str]) -> tuple[str, ...]:
    """The entries. Raises BadEntry for the first that cannot be one."""
    found = tuple(entries)
    for entry in found:
        try:
            parts = urlsplit(entry)
            well = (
                parts.scheme in _PORTS
                and _plain(entry)
                and parts.hostname
                and "*" not in parts.netloc.removeprefix(_WILD)
            )
            well = well and parts.port != 0
        except ValueError:
            well = False
        if not well:
            raise BadEntry(f"{entry}: allowed: http(s)://HOST[:PORT][/PATH], where HOST may begin with *.")
    return found


def refusal(spec: ScenarioSpec, entries: Sequence[str]) -> str:
    """The first probe whose Prometheus may not be asked, in one line; empty when there is none."""
    for probe in spec.steady_state.probes if spec.steady_state is not None else ():
        if probe.prometheus_url is not None and not any(covers(entry, probe.prometheus_url) for entry in entries):
            may = ", ".join(entries) or "none"
            return (
                f"probe {probe.name}: prometheusUrl {probe.prometheus_url} may not be asked; allowed: {may} "
                "(prometheusUrls of the chart minikafka-chaos)"
            )
    return ""


def covers(entry: str, url: str) -> bool:
    """Return whether an address begins as the entry does."""
    try:
        may, asked = urlsplit(entry), urlsplit(url)
        port = asked.port or _PORTS[asked.scheme]
        return (
            _plain(url)
            and may.scheme == asked.scheme
            and _host_fits(may.hostname or "", (asked.hostname or "").removesuffix("."))
            and (may.port is None or may.port == port)
            and _path_fits(may, asked)
        )
    except (ValueError, KeyError):  # no port, no address at all, or none of http
        return False


def _plain(url: str) -> bool:
    """Nothing in it that one program reads in one way and another in another: users, queries, escapes, steps upwards."""
    return url.isascii() and url.isprintable() and not set(url) & set("@?#%\\ ") and "/." not in url


def _host_fits(may: str, asked: str) -> bool:
    if not may.startswith(_WILD):
        return may == asked
    below = asked.removesuffix(may[1:])
    return below != asked and all(below.split("."))


def _path_fits(may: SplitResult, asked: SplitResult) -> bool:
    path = may.path.rstrip("/")
    return asked.path.rstrip("/") == path or asked.path.startswith(f"{path}/")
