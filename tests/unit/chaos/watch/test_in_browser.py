"""The page in a browser: it goes through a story forwards and backwards, by keys, and axe finds nothing against it."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.watch.evidence import Acknowledgements, EventLine, Note
from minikafka_chaos.watch.page import recorded_page
from minikafka_chaos.watch.recording import Recording

from tests.chromium import found_in, without_policy
from tests.unit.chaos.watch import golden_trace

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

HOSTILE = "<img src=x onerror=\"document.title='was run'\">"
AXE = "axe-core@4.14.1"
NPM_TIMEOUT_S = 300
DARK = "--blink-settings=preferredColorScheme=0"

# A browser that is to dump a page draws a frame or two, then none.
FRAMES = "<body><script>window.requestAnimationFrame = (draw) => setTimeout(draw, 1);</script>"
PRELUDE = """
const frame = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
const press = async (key, more) => {
  document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more }));
  await frame();
};
const answer = (told) => {
  const out = document.createElement('pre');
  out.id = 'told';
  out.textContent = JSON.stringify(told);
  document.body.append(out);
};
const cells = () => [...document.querySelectorAll('.lane')].map((lane) =>
  [lane.querySelector('.name b').textContent, ...[...lane.querySelectorAll('.cell')].filter((cell) => !cell.hidden)
    .map((cell) => `${cell.textContent} ${cell.className}`)]);
const moment = () => document.getElementById('moment').textContent;
"""
GO_THROUGH = """(async () => {
  const told = { on: [], back: [] };
  await press('Home');
  told.beginning = moment();
  const steps = +document.getElementById('slider').max;
  for (let n = 0; n < steps; n++) { await press('ArrowRight'); told.on.push(cells()); }
  told.end = moment();
  for (let n = 0; n < steps; n++) { told.back.unshift(cells()); await press('ArrowLeft'); }
  await press('End');
  await press('ArrowLeft', { shiftKey: true });
  told.notable = document.getElementById('now').textContent;
  const list = document.getElementById('find');
  list.value = 'log_truncated';
  list.dispatchEvent(new Event('input'));
  await frame();
  told.listed = [...document.querySelectorAll('#lines li')].filter((row) => !row.hidden).length;
  told.images = document.images.length;
  told.title = document.title;
  answer(told);
})();"""
JUDGE = """(async () => {
  const found = [];
  for (const key of ['Home', 'End']) {
    await press(key);
    const result = await axe.run(document);
    found.push(...result.violations.map((each) => [key, each.id, each.nodes.map((node) => node.html)]));
  }
  answer(found);
})();"""


def story() -> str:
    """Story A of KIP-101 as it was before that KIP, with names and a record that would like to be HTML."""
    recording = Recording()
    for block in golden_trace.read("kip-101-a.high-watermark.txt"):
        if block.order:
            recording.take(Note(0.0, f"{block.order} {HOSTILE}"))
        for evidence in block.evidence:
            recording.take(evidence)
        if block.order.startswith("send "):
            offset = 0 if block.order == "send m0" else 1
            values = {offset: HOSTILE if offset == 0 else "m1"}
            recording.take(Acknowledgements(0.0, TopicPartition("t", 0), offset + 1, True, values))
    recording.take(EventLine(0.0, 0, "group_rebalanced", None, None, {"group": HOSTILE, "members": 1}))
    return recorded_page(HOSTILE, recording)


def looked_at(script: str, scratch: Path, *options: str) -> Any:
    page = scratch / "page.html"
    html = without_policy(story()).replace("<body>", FRAMES)
    page.write_text(html.replace("</body>", f"<script>{PRELUDE}{script}</script></body>"))
    return found_in(page, scratch, options)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return looked_at(GO_THROUGH, tmp_path_factory.mktemp("page"))


def test_backwards_is_what_forwards_was(seen: Any) -> None:
    assert len(seen["on"]) > 20
    assert seen["on"] == seen["back"]
    assert seen["beginning"].startswith("step 0 of") and seen["end"].startswith(f"step {len(seen['on'])} of")


def test_the_lanes_show_the_record_that_is_cut_off(seen: Any) -> None:
    both = [["broker 0", "0", "1"], ["broker 1", "0", "1"]]

    def offsets(step: Any) -> Any:
        return [[lane[0], *(str(n) for n, _ in enumerate(lane[1:]))] for lane in step]

    shown = [step for step in seen["on"] if offsets(step) == both]
    assert any("m1 cell e0 uncommitted" in lane for step in shown for lane in step[0])  # it has it, and does not know
    assert any("m1 cell e0 committed" in cell for step in shown for cell in step[1])
    assert any("1 cell cut" in step[0] for step in shown)  # the follower cuts it off, and then leads
    assert "1 cell cut" in seen["on"][-1][1]  # and so does who had acknowledged it


def test_what_a_cluster_says_stays_text(seen: Any) -> None:
    assert (seen["images"], seen["title"]) == (0, HOSTILE)
    assert any(HOSTILE in cell for step in seen["on"] for lane in step for cell in lane)


def test_one_can_look_for_an_event(seen: Any) -> None:
    assert seen["listed"] == 2
    assert "isr_expanded" in seen["notable"] or "broker_" in seen["notable"]


@pytest.mark.parametrize("options", [(), (DARK,)], ids=["light", "dark"])
def test_axe_finds_nothing(options: tuple[str, ...], tmp_path: Path) -> None:
    """The script comes from npm's registry; without npm nobody has asked."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm here (apt-get install npm): nobody has asked axe-core about the page")
    subprocess.run([npm, "pack", "--silent", AXE], cwd=tmp_path, check=True, timeout=NPM_TIMEOUT_S)
    (archive,) = tmp_path.glob("axe-core-*.tgz")
    with tarfile.open(archive) as packed:
        script = packed.extractfile("package/axe.min.js")
        assert script is not None
        axe = script.read().decode()
    assert looked_at(f"{axe}\n{JUDGE}", tmp_path, *options) == []
