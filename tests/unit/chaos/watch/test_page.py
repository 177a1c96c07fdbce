"""The page of a recording: whatever comes from a cluster stays text, and what is in it is what was recorded."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

from minikafka.protocol.types import TopicPartition
from minikafka_chaos.watch.evidence import Acknowledgements, EventLine
from minikafka_chaos.watch.page import live_page, recorded_page
from minikafka_chaos.watch.page_data import beginning, steps_json
from minikafka_chaos.watch.recording import KEYFRAME_STEPS, Recording
from minikafka_chaos.watch.state import ReplicaKey

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>@script@ @data@ \u2028\ud800"
LED = {"leader_epoch": 0, "partition_epoch": 0, "start_offset": 0, "isr": [0], "high_watermark": 0}


def recording() -> Recording:
    found = Recording()
    found.take(EventLine(1.0, 0, "became_leader", "t", 0, LED))
    found.take(Acknowledgements(2.0, TopicPartition("t", 0), 1, True, {0: HOSTILE}))
    found.take(EventLine(3.0, 0, "group_rebalanced", None, None, {"group": HOSTILE, "members": 1, "reason": HOSTILE}))
    return found


def data_of(page: str) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    found: dict[str, Any] = json.loads(text)
    return found


def test_names_and_records_end_no_element() -> None:
    page = recorded_page(HOSTILE, recording())
    page.encode()
    assert page.count("<script") == 2 and page.count("</script>") == 2
    assert "<img" not in page
    assert data_of(page)["steps"][1]["c"]["p|t|0"]["records"][0]["value"] == HOSTILE
    assert data_of(page)["title"] == HOSTILE


def test_only_its_own_script_runs() -> None:
    for page in (recorded_page("t", recording()), live_page("t")):
        script = page.rpartition("<script>")[2].partition("</script>")[0]
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"script-src &#x27;sha256-{digest}&#x27;" in page
        assert re.findall(r"@[a-z]+@", page.replace("@script@", "").replace("@data@", "")) == []
        assert re.findall(r"<[a-z]+[^>]*\s(?:src|href)=", page) == []
        assert "innerHTML" not in script and "insertAdjacentHTML" not in script and "document.write" not in script


def test_the_page_can_ask_only_whom_it_is_from() -> None:
    assert "connect-src &#x27;self&#x27;" in live_page("t")
    assert "connect-src &#x27;none&#x27;" in recorded_page("t", recording())
    assert data_of(recorded_page("t", recording()))["verbs"] == {}
    assert beginning("t", recording(), live=True)["verbs"]["power_loss"] == "Power loss"


def test_zero_is_not_left_out() -> None:
    """The first broker of a scenario is 0, as are the first offset and the first epoch."""
    (first, *_) = steps_json(recording().steps)
    assert first["c"]["p|t|0"] == {"leader": 0, "leader_epoch": 0, "partition_epoch": 0, "isr": (0,)}
    assert first["c"]["r|t|0|0"]["log_end"] == 0 and "flushed" not in first["c"]["r|t|0|0"]


def test_steps_make_the_state_that_was_recorded() -> None:
    """What the page does: it begins with a whole state, and makes each step's changes."""
    found = Recording(steps_max=2 * KEYFRAME_STEPS)
    found.take(EventLine(0.0, 0, "became_leader", "t", 0, LED))
    for end in range(1, 1500):
        found.take(Acknowledgements(float(end), TopicPartition("t", 0), end, True, {}))
    assert found.forgotten > 0
    document = {**beginning("t", found, live=True), "steps": steps_json(found.steps)}
    state = document["state"]
    for step in document["steps"]:
        state.update(step.get("c", {}))
    assert state["r|t|0|0"]["log_end"] == found.newest.replica(ReplicaKey("t", 0, 0)).log_end == 1499
