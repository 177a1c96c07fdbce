"""The client's side of a broker's hooks (`minikafka.test.hooks`): sets them, clears them, asks what was seen."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.session.errors import VerbRefused

TIMEOUT_S = 10.0
OFF = "hooks are off: the brokers need minikafka.test.hooks=true"


class BrokerHooks:
    """Of one broker; `metrics_url` is where its metrics are. Raises ToolTrouble when it does not answer."""

    def __init__(self, metrics_url: str) -> None:
        self._url = metrics_url.removesuffix("/metrics") + "/hooks"

    def order(self, **given: str | int | None) -> None:
        """Set a hook, or clear all. Raises VerbRefused for one that cannot be."""
        query = urllib.parse.urlencode({name: value for name, value in given.items() if value is not None})
        self._ask(urllib.request.Request(f"{self._url}?{query}", method="POST", headers={"Content-Length": "0"}))

    def requests(self, api: str) -> list[Mapping[str, Any]]:
        """Return what was observed of an API, oldest first."""
        document = self._ask(urllib.request.Request(self._url))
        return [each for each in document["requests"] if each["api"] == api]

    def _ask(self, request: urllib.request.Request) -> Any:
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                words = error.read().decode().strip()
            if error.code == HTTPStatus.BAD_REQUEST:
                raise VerbRefused(words) from None
            if error.code in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
                raise VerbRefused(OFF) from None
            raise ToolTrouble(f"{self._url}: {words}") from error
        except (OSError, ValueError) as error:
            raise ToolTrouble(f"{self._url}: {error}") from error
