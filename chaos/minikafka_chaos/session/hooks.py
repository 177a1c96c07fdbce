"""The client's side of a broker's hooks (`minikafka.test.hooks`): sets them, clears them, asks what was seen."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from minikafka.client.metrics_access import OPEN, MetricsAccess
from minikafka.local.layout import HOOKS

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.session.deadline import Deadline
from minikafka_chaos.session.errors import VerbRefused

TIMEOUT_S = 10.0
TURN_ON = "brokers need the setting minikafka.test.hooks=true when they start (minikafka up --config minikafka.test.hooks=true)"
OFF = f"hooks are off: {TURN_ON}"


def are_on(settings: Mapping[str, str]) -> bool:
    """Return whether brokers with these settings have hooks; read as they read it."""
    return settings.get(HOOKS, "").strip().lower() == "true"


class BrokerHooks:
    """Of one broker; `metrics_url` is where its metrics are. Raises ToolTrouble when it does not answer."""

    def __init__(self, metrics_url: str, access: MetricsAccess = OPEN, deadline: Deadline | None = None) -> None:
        self._access = access
        self._deadline = deadline or Deadline(TIMEOUT_S)
        self._url = metrics_url.removesuffix("/metrics") + "/hooks"

    def order(self, **given: str | int | None) -> None:
        """Set a hook, or clear all. Raises VerbRefused for one that cannot be."""
        query = urllib.parse.urlencode({name: value for name, value in given.items() if value is not None})
        self._ask(f"{self._url}?{query}", "POST")

    def requests(self, api: str) -> list[Mapping[str, Any]]:
        """Return what was observed of an API, oldest first."""
        document = self._ask(self._url)
        return [each for each in document["requests"] if each["api"] == api]

    def _ask(self, url: str, method: str = "GET") -> Any:
        try:
            status, body = self._access.ask(url, self._deadline.at_most(TIMEOUT_S), method)
            if status == HTTPStatus.OK:
                return json.loads(body)
        except (OSError, ValueError) as error:
            raise ToolTrouble(f"{self._url}: {error}") from error
        words = body.decode(errors="replace").strip()
        if status == HTTPStatus.BAD_REQUEST:
            raise VerbRefused(words)
        if status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
            raise VerbRefused(OFF)
        raise ToolTrouble(f"{self._url}: {words}")
