"""A headless Chromium, for tests of pages: it runs a script in a page, and gives back what the script has found."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

import pytest

DEADLINE_S = 300
VIRTUAL_MS = 10_000  # of the browser's own clock, which does not wait
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")


def browser() -> str:
    """The program; without one the test is skipped, and says how to get it."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium here (apt-get install chromium): nobody has looked at the page in a browser")
    return found


def without_policy(html: str) -> str:
    """The page without the policy by which no script but its own runs: a test's has to."""
    return re.sub(r"<meta http-equiv=.*?>", "", html)


def found_in(page: Path, scratch: Path, options: Sequence[str] = (), fragment: str = "") -> Any:
    """What the element `told` of a page has in it, as JSON, when its scripts have run."""
    command = [browser(), *OPTIONS, f"--user-data-dir={scratch / 'profile'}", f"--virtual-time-budget={VIRTUAL_MS}"]
    command += [*options, "--dump-dom", page.as_uri() + fragment]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    (told,) = re.findall(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    return json.loads(unescape(told))
