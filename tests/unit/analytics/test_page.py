"""The page: it says the verdict, stands alone, and does not trust what it shows."""

from __future__ import annotations

import base64
import hashlib
import html as html_of
import json
import re
from html.parser import HTMLParser

import pytest
from conftest import Analysed
from minikafka_analytics.analyze import analyze
from minikafka_analytics.report.page import page
from synthetic_run import write_run

pytestmark = pytest.mark.timeout(900)

FETCHES = {"src", "href", "srcset", "data", "action", "poster", "xlink:href"}


class References(HTMLParser):
    """Everything in a page that a browser would fetch, and the tags that stay open."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.found += [
            f"{tag} {name}={value}" for name, value in attrs if name in FETCHES and not (value or "").startswith("#")
        ]
        if tag not in {"meta", "br", "link", "img", "hr"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


def test_the_page_fetches_nothing(analysed: Analysed) -> None:
    page = References()
    page.feed(analysed.html)
    assert page.found == []
    assert not page.tags & {"link", "iframe", "img", "object", "embed"}
    assert "@import" not in analysed.html
    assert re.findall(r"url\((?!#)", analysed.html) == []
    assert page.open == []


def test_no_script_runs_but_the_pages_own(analysed: Analysed) -> None:
    """Markup that got into a page from a run could do nothing: the policy names the one script by its digest."""
    (script,) = re.findall(r"<script[^>]*>(.*?)</script>", analysed.html, re.DOTALL)
    known = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="(.*?)">', analysed.html)
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{known}'"
    assert " on" not in {name[:3] for name in re.findall(r"<[^>]*?( on\w+)=", analysed.html)}


def test_the_verdict_comes_first(analysed: Analysed) -> None:
    text = re.sub(r"<style>.*?</style>", "", analysed.html, flags=re.DOTALL)
    assert text.index(
        "The two judges differ on 2 runs of 7. Acknowledged records were lost in 1 run of 7."
    ) < text.index("<table")
    assert "1 acknowledged record was lost." in text
    assert "No acknowledged record was lost." in text
    assert "The two judges differ" in text


def test_every_plot_has_its_faults_shaded(analysed: Analysed) -> None:
    good = analysed.html.split("<h1>Run good</h1>")[1].split("<h1>Run ")[0]
    plots = re.findall(r'<svg class="plot".*?aria-label="(.*?)".*?>(.*?)(?=</figure>|<figcaption)', good, re.DOTALL)
    assert [name for name, _ in plots] == [
        "Roles of replicas over time",
        "Sends per second by outcome",
        "Latency of acknowledgements",
        "Offsets of bank-0 on every replica",
        "Records behind the leader",
        "Offsets of bank-1 on every replica",
        "Records behind the leader",
        "Records at risk of a power loss",
    ]
    for name, svg in plots:
        assert [svg.count(f'<use href="#{part}-A"') for part in ("bands", "labels", "times", "cursor")] == [1] * 4, name
    (bands,) = re.findall(r'<path class="band" d="(.*?)"', good)
    assert bands.count("z") == 2


def test_a_lost_record_leads_to_its_moment_and_back(analysed: Analysed) -> None:
    run = analysed.html.split("<h1>Run lossy [1] {a}</h1>")[1].split("<h1>Run ")[0]
    (lost,) = analysed.expected["lossy [1] {a}"].lost
    row = re.search(r'<tr id="(B-lost-1-row)">.*?</tr>', run, re.DOTALL)
    assert row
    assert lost in row.group()
    assert '<a href="#B-lost-1"' in row.group()
    plot = run.split('aria-label="Offsets of bank-0 on every replica"')[1].split("</figure>")[0]
    mark = re.search(r'<svg class="mark" id="B-lost-1".*?</svg>', plot)
    assert mark
    assert f"{lost} at offset" in mark.group()
    assert '<a href="#B-lost-1-row"' in mark.group()
    for name in re.findall(r'href="#(.*?)"', analysed.html):
        assert f'id="{name}"' in analysed.html, name


def test_the_query_behind_a_figure_is_told(analysed: Analysed) -> None:
    asked = {(each["name"], each["answer"]): each for each in analysed.report["asked"]}
    (sql,) = asked["gaps", False]["sql"]
    assert asked["gaps", False]["needs"] == ["sends", "sent"]
    assert "FROM sends" in sql
    assert "seconds >= 0.25" in sql  # literals as Spark got them
    assert '<a class="asked" href="#asked-gaps"' in analysed.html
    shown = analysed.html.split('<pre id="asked-gaps">')[1].split("</pre>")[0]
    assert html_of.unescape(shown) == sql


def test_what_a_run_says_is_shown_as_text(analysed: Analysed) -> None:
    """A run is evidence, not code: markup in a value, an error or a setting stays text."""
    said = json.dumps(analysed.report).replace("p0-00079", "<script>alert(1)</script>")
    assert said.count("<script>")
    report = json.loads(said)
    for run in report["runs"]:
        run["path"] = f"/<b>{run['path']}"
    html = page(report, analysed.points)
    assert html.count("<script>") == 1  # the page's own
    assert "&lt;script&gt;" in html
    assert "<b>/" not in html


@pytest.mark.full  # test_landing.py has what it consists of
def test_a_second_analysis_replaces_the_first(spark: object, tmp_path) -> None:
    write_run(tmp_path / "run")
    first = analyze([tmp_path / "run"], tmp_path / "run")
    rows = sum(1 for _ in (first.parquet / "history").rglob("*.parquet"))
    second = analyze([tmp_path / "run"], tmp_path / "run")
    assert sum(1 for _ in (second.parquet / "history").rglob("*.parquet")) == rows
    assert "No acknowledged record was lost." in second.html.read_text(encoding="utf-8")
