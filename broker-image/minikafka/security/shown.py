"""How a refusal repeats what it was given: on one line, shortened, and nothing that looks like a secret.

Errors of settings stand on terminals, in logs of brokers and pods that many may read, and in the status of custom resources.
"""

from __future__ import annotations

import re

HIDDEN = "[hidden]"
_SHOWN_MAX = 256
_SECRET = re.compile(r"LoginModule|PRIVATE KEY|(password|passwd|secret|token)[\"']?\s*=|://[^?]*\?", re.IGNORECASE)
"""In the value of a setting that is to have none: a key where the path of a file is due, say."""


def shown(value: str) -> str:
    """Return what may be repeated of a value."""
    names_user = "@" in value.partition("://")[2]  # whose password may have any sign in it
    return HIDDEN if names_user or _SECRET.search(value) else one_line(value, _SHOWN_MAX)


def one_line(text: str, characters_max: int) -> str:
    """Return a text, or its beginning, with what cannot be printed as escapes."""
    cut = text if len(text) <= characters_max else f"{text[:characters_max]}..."
    if cut.isprintable():
        return cut
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in cut)
