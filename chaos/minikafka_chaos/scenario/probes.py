"""Probes: what metrics must say of a cluster in its steady state. The part of a document, and how it is asked."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from minikafka_chaos.scenario.document import Name, Part, Seconds
from minikafka_chaos.scenario.metric_query import Samples, parse_query
from minikafka_chaos.scenario.steps import Condition

PROMETHEUS_TIMEOUT_S = 5.0


class During(StrEnum):
    """What becomes of a probe that does not hold while the story is told."""

    TOLD = "Told"
    REQUIRED = "Required"


class Probe(Part):
    """A query that has to hold: of the brokers' metrics now (`minikafka_chaos.scenario.metric_query`), or of a Prometheus."""

    name: Name
    """Its name in the journal."""
    query: Annotated[str, Field(min_length=1, max_length=2000)]
    """A comparison of the brokers' metrics now; with prometheusUrl any PromQL, which holds when it has a result."""
    prometheus_url: Annotated[str, Field(pattern=r"^https?://[^\s?#@]+$", max_length=2000)] | None = None
    """The Prometheus that is asked; without it: the brokers themselves."""
    during: During = During.TOLD
    """While the story is told it is asked every second. Told: how often it held is in the journal. Required: it has to
    hold, else Inconclusive."""

    @model_validator(mode="after")
    def _is_understood(self) -> Self:
        if self.prometheus_url is None:
            parse_query(self.query)
        return self

    def ask(self, samples: Samples) -> tuple[bool, str]:
        """Return whether it holds now, and what was seen. `samples` are the brokers' own. Nobody answering is an answer: no."""
        if self.prometheus_url is None:
            return parse_query(self.query).answer(samples)
        return ask_prometheus(self.prometheus_url, self.query)


class SteadyStateSpec(Part):
    """What holds while all is well. `deadlineSeconds` is how long it may take to come about, before and after."""

    conditions: Annotated[list[Condition], Field(max_length=50)] = Field(default_factory=list)
    """Conditions, as in a wait."""
    probes: Annotated[list[Probe], Field(max_length=50)] = Field(default_factory=list)
    """What metrics have to say."""
    deadline_seconds: Seconds = 30
    """How long it may take to come about, before the first step and after the last."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.conditions and not self.probes:
            raise ValueError("steadyState: needs conditions or probes")
        return self


def needs_samples(probes: Iterable[Probe]) -> bool:
    """Return whether the brokers have to be asked at all."""
    return any(probe.prometheus_url is None for probe in probes)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What may be asked is this address, not whatever it points at."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def ask_prometheus(url: str, query: str) -> tuple[bool, str]:
    """Return whether an instant query has a result, as an alert would fire; a scalar holds unless it is 0."""
    where = f"{url.rstrip('/')}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with _OPENER.open(where, timeout=PROMETHEUS_TIMEOUT_S) as answer:
            data = json.load(answer)["data"]
        kind, result = data["resultType"], data["result"]
    except urllib.error.HTTPError as error:
        return False, f"Prometheus: {error.code} {_refusal(error)}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return False, f"Prometheus: {getattr(error, 'reason', error)}"
    if kind == "scalar":
        return float(result[1]) != 0, str(result[1])
    values = [str(each["value"][1]) for each in result if "value" in each]
    return bool(result), " ".join(values[:5]) or ("nothing" if not result else f"{len(result)} series")


def _refusal(error: urllib.error.HTTPError) -> str:
    """Prometheus says in JSON what it does not understand."""
    try:
        return str(json.load(error)["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return str(error.reason)
