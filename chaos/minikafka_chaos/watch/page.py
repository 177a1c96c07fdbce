"""The page: one HTML file without a script or style from elsewhere. With a recording in it, it needs no server."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from minikafka_chaos.watch.page_data import beginning, steps_json
from minikafka_chaos.watch.recording import Recording

TEMPLATES = Path(__file__).parent / "templates"
HOSTILE: Mapping[str, str] = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""What could end a script element, or a line of one, as JSON may have it instead."""


def live_page(title: str) -> str:
    """Return the page that asks its server for all that it shows."""
    return _page(title, None)


def recorded_page(title: str, recording: Recording) -> str:
    """Return the page of a recording, which has all of it in itself."""
    return _page(title, {**beginning(title, recording, live=False), "steps": steps_json(recording.steps)})


def _page(title: str, data: Mapping[str, Any] | None) -> str:
    parts = {name: (TEMPLATES / f"watch.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")}
    script = f"\n{parts['js']}"
    allowed = {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'",
        "script-src": f"'sha256-{_digest(script)}'",
        "connect-src": "'self'" if data is None else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    policy = "; ".join(f"{name} {value}" for name, value in allowed.items())
    found = parts["html"]
    # Each place is filled once, and what is filled in is not looked at again: it may have the name of another place in it.
    filled = {
        "@policy@": escape(policy),
        "@title@": _encodable(escape(title)),
        "@style@": parts["css"],
        "@data@": _json(data),
        "@script@": script,
    }
    pieces: list[str] = []
    for place, text in filled.items():
        before, _, found = found.partition(place)
        pieces += [before, text]
    return "".join([*pieces, found])


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _json(data: Any) -> str:
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    for character, instead in HOSTILE.items():
        text = text.replace(character, instead)
    return _encodable(text)


def _encodable(text: str) -> str:
    """Return the text without lone halves of surrogate pairs, which JSON and names of files may have, and UTF-8 may not."""
    return text.encode(errors="backslashreplace").decode()
