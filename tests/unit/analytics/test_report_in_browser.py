"""The page in a browser, wide and as wide as a phone: nothing too small, nothing clipped; the cursor tells what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import Analysed
from synthetic_run import KILL_AT, POWER_LOSS_AT, STARTED_AT

from tests.chromium import found_in, without_policy
from tests.forms import in_full

pytestmark = pytest.mark.timeout(900)

LOOK = """
const told = {};
const frames = [...document.querySelectorAll('svg.plot')];
const words = [...document.querySelectorAll('body *')].filter((each) => each.getClientRects().length
  && [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) && !each.closest('.parts, style, script'));
told.sizes = words.map((each) => {
  const scale = each instanceof SVGElement ? Math.abs(each.getScreenCTM().d) : 1;
  return [parseFloat(getComputedStyle(each).fontSize) * scale, each.textContent.slice(0, 40)];
});
told.width = [document.documentElement.scrollWidth, innerWidth];
told.outside = words.filter((each) => each instanceof SVGElement).filter((each) => {
  const box = each.getBoundingClientRect();
  return box.left < 0 || box.right > innerWidth;
}).map((each) => each.textContent);
told.lefts = [...new Set(frames.map((svg) => svg.getBoundingClientRect().left))].length;
told.labels = [...document.querySelectorAll('.parts')].map((parts) => {
  const width = frames.find((svg) => svg.dataset.run === parts.dataset.run).getBoundingClientRect().width;
  return [...parts.querySelectorAll('.tab')].map((tab) => {
    const at = parseFloat(tab.getAttribute('x')) / 100 * width, text = tab.querySelector('text');
    const probe = text.cloneNode(true);
    frames[0].append(probe);
    const needs = probe.getBBox().width;
    probe.remove();
    return { at, room: +tab.querySelector('rect').getAttribute('width'), needs, width, text: text.textContent };
  });
});
const plot = frames.find((svg) => svg.getAttribute('aria-label').startsWith('Offsets'));
plot.scrollIntoView();
const box = plot.getBoundingClientRect();
const point = (kind, share, pointerType = 'mouse') => plot.dispatchEvent(new PointerEvent(kind,
  { clientX: box.left + share * box.width, clientY: box.top + 90, button: 0, bubbles: true, pointerType }));
const shown = () => !document.querySelector('.readout').hidden;
point('pointerdown', 0.3, 'touch');
point('pointerup', 0.3, 'touch');
point('pointerleave', 0.3, 'touch');
told.touched = shown();
document.querySelector('h1').dispatchEvent(new PointerEvent('pointerdown', { bubbles: true }));
told.elsewhere = shown();
point('pointermove', 0.2);
point('pointerleave', 0.2);
told.left = shown();
point('pointermove', 0.5);
told.readout = [...document.querySelectorAll('.readout div')].map((row) => [...row.children].map((each) => each.textContent));
told.cursors = document.querySelectorAll('#cursor-' + plot.dataset.run + ' .cursor').length;
const view = () => plot.querySelector('.data').getAttribute('viewBox').split(' ').filter((_, n) => n % 2 === 0).join(' ');
told.whole = +document.querySelector('.parts').dataset.whole;
point('pointerdown', 0.25);
point('pointermove', 0.5);
point('pointermove', 0.75);
point('pointerup', 0.75);
told.dragged = view();
document.querySelector('button.whole').click();
told.back = view();
document.querySelector('a.tag[data-run="' + plot.dataset.run + '"]').dispatchEvent(
  new MouseEvent('click', { bubbles: true, cancelable: true }));
const own = frames.filter((svg) => svg.dataset.run === plot.dataset.run);
told.views = [...new Set(own.flatMap((svg) => [...svg.querySelectorAll('[viewBox]')]).map((svg) =>
  svg.getAttribute('viewBox').split(' ').filter((_, n) => n % 2 === 0).join(' ')))];
told.ticks = [...document.querySelectorAll('#times-' + plot.dataset.run + ' text')].map((tick) => tick.textContent);
parent.postMessage(JSON.stringify(told), '*');
"""
# A browser's own window cannot be as narrow as a phone's; a frame can.
FRAME = """<!DOCTYPE html><body><script>
addEventListener('message', (event) => {
  const out = document.createElement('pre');
  out.id = 'told';
  out.textContent = event.data;
  document.body.append(out);
});
</script><iframe src="page.html" width="%d" height="900"></iframe></body>"""


def looked_at(html: str, width: int, scratch: Path) -> dict[str, Any]:
    """What a browser makes of the page in a window so wide. The policy of the page, which forbids to look so, is taken away."""
    look = without_policy(html).replace("</body>", f"<script>{LOOK}</script></body>")
    (scratch / "page.html").write_text(look, encoding="utf-8")
    (scratch / "frame.html").write_text(FRAME % width, encoding="utf-8")
    found: dict[str, Any] = found_in(scratch / "frame.html", scratch, ["--window-size=1400,1000"])
    return found


@pytest.fixture(scope="module", params=[390, *in_full([1300])])
def seen(
    request: pytest.FixtureRequest, analysed: Analysed, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    return looked_at(analysed.html, request.param, tmp_path_factory.mktemp("browser"))


def test_every_word_can_be_read(seen: dict[str, Any]) -> None:
    assert len(seen["sizes"]) > 500
    assert [word for word in seen["sizes"] if word[0] < 11 - 1e-6] == []


def test_nothing_is_wider_than_the_window(seen: dict[str, Any]) -> None:
    assert seen["width"][0] <= seen["width"][1]
    assert seen["outside"] == []


def test_labels_of_faults_stand_in_their_plot_and_hold_their_text(seen: dict[str, Any]) -> None:
    assert seen["lefts"] == 1
    assert [len(labels) for labels in seen["labels"]] == [2, 2, 2, 2, 2, 0, 2]  # one run has no journal
    for labels in seen["labels"]:
        for label in labels:
            assert label["needs"] <= label["room"]
            assert 0 <= label["at"] <= label["width"] - label["room"] + 0.5


def scraped(analysed: Analysed, metric: str, broker: int, moment: float) -> int:
    """What a broker had exported about bank-0 at the scrape that was next to a moment of the first run."""
    import pyarrow.dataset as ds

    run = analysed.report["runs"][0]
    rows = ds.dataset(analysed.parquet / "samples", partitioning="hive").to_table().to_pylist()
    own = [
        row
        for row in rows
        if (row["run"], row["metric"], row["broker"]) == (run["id"], metric, broker) and row["partition"] == 0
    ]
    return int(min(own, key=lambda row: abs(row["time"] - run["began_unix"] - moment))["value"])


def test_the_cursor_tells_what_was_measured(seen: dict[str, Any], analysed: Analysed) -> None:
    told = dict(seen["readout"])
    half = analysed.report["runs"][0]["seconds"] / 2
    assert told["at"] == f"{half:.2f} s"
    for broker in (1, 2, 3):
        for words, metric in (("log end offset", "log_end_offset"), ("high watermark", "high_watermark")):
            exported = scraped(analysed, f"minikafka_{metric}", broker, half)
            assert exported > 100
            assert told[f"{words} on broker {broker}"] == f"{exported:,}", (words, broker)
    assert seen["cursors"] == 1


def test_what_a_finger_points_at_stays_until_it_points_elsewhere(seen: dict[str, Any]) -> None:
    assert (seen["touched"], seen["elsewhere"], seen["left"]) == (True, False, False)


def test_a_drag_shows_what_it_went_over(seen: dict[str, Any]) -> None:
    first, wide = map(float, seen["dragged"].split())
    assert first / seen["whole"] == pytest.approx(0.25, abs=0.01)
    assert wide / seen["whole"] == pytest.approx(0.5, abs=0.01)
    assert seen["back"] == f"0 {seen['whole']}"


def test_a_click_on_a_fault_shows_it_larger_in_all_plots(seen: dict[str, Any]) -> None:
    (view,) = seen["views"]
    from_ms, wide_ms = map(float, view.split())
    assert from_ms < 1000 * KILL_AT
    assert 1000 * STARTED_AT < from_ms + wide_ms < 1000 * POWER_LOSS_AT
    assert len(seen["ticks"]) >= 2
