"""collect.py: makes the metrics and events of a run's folder, from a Prometheus and from the brokers' event logs.

It runs in the cluster, before the analysis. Prometheus is asked for raw samples (a range vector), so that nothing is
interpolated; the outcome is in the form of `minikafka_chaos.observe`, one line for each scrape of a broker.
"""

from __future__ import annotations

import argparse
import json
import re
import urllib.parse
import urllib.request
from collections import defaultdict
from pathlib import Path
from typing import Any

WANTED = '{job="brokers",__name__=~"minikafka_.*|process_.*|up"}'
OWN_LABELS = frozenset(("__name__", "job", "instance", "pod", "namespace"))
SECONDS_MAX = 60
ORDINAL = re.compile(r"-(\d+)$")


def raw_samples(prometheus: str, began: float, ended: float) -> list[dict[str, Any]]:
    """Every series with all of its samples between two moments (Unix seconds)."""
    query = urllib.parse.urlencode({"query": f"{WANTED}[{int(ended - began) + 1}s]", "time": f"{ended:.3f}"})
    with urllib.request.urlopen(f"{prometheus}/api/v1/query?{query}", timeout=SECONDS_MAX) as answer:
        return list(json.load(answer)["data"]["result"])


def scrapes(series: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The samples of one scrape together, in the order of time. A scrape that failed is a line with an error."""
    found: dict[tuple[float, int], list[list[Any]]] = defaultdict(list)
    failed: set[tuple[float, int]] = set()
    for each in series:
        labels = each["metric"]
        ordinal = ORDINAL.search(labels.get("pod", ""))
        if ordinal is None:
            continue
        name = labels["__name__"]
        kept = {key: value for key, value in labels.items() if key not in OWN_LABELS}
        for moment, value in each["values"]:
            where = (float(moment), int(ordinal[1]))
            if name != "up":
                found[where].append([name, kept, float(value)])
            elif value == "0":
                failed.add(where)
    lines = [{"time": time, "broker": broker, "samples": samples} for (time, broker), samples in found.items()]
    lines += [{"time": time, "broker": broker, "error": "the scrape failed"} for time, broker in failed - found.keys()]
    return sorted(lines, key=lambda line: (line["time"], line["broker"]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--prometheus", required=True)
    parser.add_argument("--from", dest="began", type=float, required=True)
    parser.add_argument("--to", dest="ended", type=float, required=True)
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    (args.out / "metrics").mkdir(parents=True, exist_ok=True)
    (args.out / "events").mkdir(exist_ok=True)
    lines = scrapes(raw_samples(args.prometheus, args.began, args.ended))
    with (args.out / "metrics" / "samples.jsonl").open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
    copied = 0
    for log in sorted(args.events.glob("*/*.jsonl")):
        copied += 1
        with (
            log.open(encoding="utf-8", errors="replace") as source,
            (args.out / "events" / log.name).open("w") as target,
        ):
            target.writelines(line for line in source if _within(line, args.began, args.ended))
    print(f"{len(lines)} scrapes from {args.prometheus}, {copied} event logs")


def _within(line: str, began: float, ended: float) -> bool:
    try:
        return began <= float(json.loads(line)["time"]) <= ended
    except (ValueError, KeyError, TypeError):
        return False


if __name__ == "__main__":
    main()
