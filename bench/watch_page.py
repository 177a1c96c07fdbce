"""How fluid the page of `minikafka watch` is: frame times in Chromium while five brokers tell a thousand events a second.

Nothing is asserted: `python -m bench.watch_page` prints the times, and with `--screenshots DIR` writes what it looked like,
light and dark. Needs Chromium. The events are made here; a fold, a server and a page that are the product's show them.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
from minikafka_chaos.record.observe import Sample
from minikafka_chaos.watch.evidence import EventLine, Evidence, Scrape
from minikafka_chaos.watch.recording import STEPS_KEPT_MAX, Recording
from minikafka_chaos.watch.server import SharedRecording, WatchServer

BROKERS, PARTITIONS = 5, 8
LOOKED_S = 15.0
WINDOW = "1500,1050"
DRAWN = """new Promise((resolve) => { const look = () => document.querySelectorAll('.lane').length < %d
  ? requestAnimationFrame(look) : resolve(true); look(); })"""
SPENT = ("TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
"""Of Chromium's own figures: what the thread of the page does in all, and the parts of it."""
FRAMES = """new Promise((resolve) => {
  const found = []; let last = performance.now(); const end = last + %d;
  const frame = (now) => {
    found.push(now - last);
    last = now;
    if (now < end) requestAnimationFrame(frame); else resolve(found);
  };
  requestAnimationFrame(frame); })"""


def replicas(partition: int) -> list[int]:
    """Three of the brokers, the leader first."""
    return [(partition + n) % BROKERS + 1 for n in range(3)]


def beginning() -> Iterator[Evidence]:
    """Yield a cluster that has just come up."""
    now = time.time()
    for broker in range(1, BROKERS + 1):
        yield EventLine(now, broker, "broker_ready", None, None, {"seconds": 0.1})
    yield EventLine(now, 1, "controller_elected", None, None, {"controller_epoch": 1})
    for partition in range(PARTITIONS):
        leader, *others = replicas(partition)
        common = {"leader_epoch": 0, "partition_epoch": 0, "high_watermark": 0}
        led = {**common, "start_offset": 0, "isr": [leader, *others]}
        yield EventLine(now, leader, "became_leader", "load", partition, led)
        for broker in others:
            followed = {**common, "leader": leader, "log_end_offset": 0}
            yield EventLine(now, broker, "became_follower", "load", partition, followed)


def second(per_second: int, ends: list[int], turn: int) -> Iterator[list[Evidence]]:
    """Yield a tenth of a second's events, ten times: acknowledgements, offsets, and now and then an ISR that changes."""
    for tenth in range(10):
        found: list[Evidence] = []
        for n in range(per_second // 10):
            partition = n % PARTITIONS
            leader = replicas(partition)[0]
            fields = {"offset": ends[partition], "records": 1, "crc": n, "acks": -1}
            ends[partition] += 1
            found.append(EventLine(time.time(), leader, "produce_acknowledged", "load", partition, fields))
        partition = (turn + tenth) % PARTITIONS
        leader, *others = replicas(partition)
        name, isr = ("isr_shrunk", [leader]) if turn % 2 else ("isr_expanded", [leader, *others])
        changed = {
            "leader_epoch": 0,
            "partition_epoch": 10 * turn + tenth,
            "isr": isr,
            "high_watermark": ends[partition],
            "log_end_offset": ends[partition],
        }
        found.append(EventLine(time.time(), leader, name, "load", partition, changed))
        if tenth % 5 == 0:
            found += [_scrape(broker, ends) for broker in range(1, BROKERS + 1)]
        yield found


def _scrape(broker: int, ends: list[int]) -> Scrape:
    samples = []
    for partition, end in enumerate(ends):
        if broker in replicas(partition):
            labels = {"topic": "load", "partition": str(partition)}
            leads = replicas(partition)[0] == broker
            values = {
                "replica_role": 2 if leads else 1,
                "leader_epoch": 0,
                "log_end_offset": end + (3 if leads else 0),
                "high_watermark": end,
                "log_flushed_offset": max(end - 6, 0),
            }
            samples += [Sample(f"minikafka_{name}", labels, value) for name, value in values.items()]
    return Scrape(time.time(), broker, samples)


def feed(shared: SharedRecording, per_second: int, ended: threading.Event) -> None:
    """Hand on events at that pace until it is enough."""
    shared.take_all(beginning())
    ends = [0] * PARTITIONS
    due = time.monotonic()
    for turn in itertools.count():
        for found in second(per_second, ends, turn):
            shared.take_all(found)
            due += 0.1
            if ended.wait(max(due - time.monotonic(), 0)):
                return


class Browser:
    """A tab of a headless Chromium, by its DevTools protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)

    async def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Have a method carried out; its result."""
        number = next(self._ids)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async for message in self._socket:
            answer = json.loads(message.data)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
        raise RuntimeError(f"{method}: the browser has gone")

    async def evaluate(self, expression: str) -> Any:
        """Return the value of an expression, awaited where it is a promise."""
        found = await self.do("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        return found["result"].get("value")

    async def screenshot(self, path: Path) -> None:
        """Write what is seen."""
        path.write_bytes(base64.b64decode((await self.do("Page.captureScreenshot"))["data"]))


async def look(url: str, screenshots: Path | None) -> list[float]:
    """Open the page, and return its frame times in milliseconds."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        raise SystemExit("bench.watch_page: needs Chromium (apt-get install chromium)")
    with tempfile.TemporaryDirectory() as profile:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
        command = [program, *options, f"--user-data-dir={profile}", f"--window-size={WINDOW}", "about:blank"]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        try:
            assert process.stderr is not None
            port = await _port(process.stderr)
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                    (tab,) = [each for each in await answer.json() if each["type"] == "page"]
                async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    return await _looked(Browser(socket), url, screenshots)
        finally:
            process.terminate()
            await process.wait()


async def _port(stderr: asyncio.StreamReader) -> int:
    async for line in stderr:
        if b"DevTools listening on" in line:
            return int(line.decode().split("//127.0.0.1:")[1].split("/")[0])
    raise SystemExit("bench.watch_page: Chromium does not start")


async def _looked(browser: Browser, url: str, screenshots: Path | None) -> list[float]:
    await browser.do("Page.navigate", url=url)
    await browser.evaluate(DRAWN % (3 * PARTITIONS))
    await browser.do("Performance.enable", timeDomain="threadTicks")
    before = await _spent(browser)
    frames: list[float] = await browser.evaluate(FRAMES % (LOOKED_S * 1000))
    after = await _spent(browser)
    spent = ", ".join(f"{name} {(after[name] - before[name]) / LOOKED_S * 1000:.0f} ms" for name in SPENT)
    print(f"processor of the page's thread in a second: {spent}")
    if screenshots is not None:
        screenshots.mkdir(parents=True, exist_ok=True)
        for scheme in ("light", "dark"):
            wanted = [{"name": "prefers-color-scheme", "value": scheme}]
            await browser.do("Emulation.setEmulatedMedia", features=wanted)
            await browser.screenshot(screenshots / f"watch-{scheme}.png")
    print("shown:", await browser.evaluate("document.getElementById('moment').textContent"))
    return frames


async def _spent(browser: Browser) -> dict[str, float]:
    metrics = (await browser.do("Performance.getMetrics"))["metrics"]
    return {each["name"]: each["value"] for each in metrics if each["name"] in SPENT}


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--per-second", type=int, default=1000, metavar="N", help="events (default 1000)")
    parser.add_argument("--screenshots", type=Path, metavar="DIR", help="write what the page looks like")
    args = parser.parse_args()
    shared = SharedRecording("five brokers", Recording(STEPS_KEPT_MAX), live=True)
    server = WatchServer(shared, "127.0.0.1", 0, None, lambda _verb, _given: None)
    server.start()
    ended = threading.Event()
    feeder = threading.Thread(target=feed, args=(shared, args.per_second, ended))
    feeder.start()
    try:
        frames = sorted(asyncio.run(look(server.url, args.screenshots)))
    finally:
        ended.set()
        feeder.join()
        server.close()
    shares = {f"p{share}": frames[min(len(frames) * share // 100, len(frames) - 1)] for share in (50, 95, 99)}
    words = ", ".join(f"{name} {value:.1f} ms" for name, value in shares.items())
    print(
        f"{len(frames)} frames in {LOOKED_S:g} s beside {args.per_second} events a second: {words}, longest {frames[-1]:.1f} ms"
    )


if __name__ == "__main__":
    main()
