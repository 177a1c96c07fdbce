"""Judging is linear: no query compares every row of a table with every row of another (it once took 59 s for 108,000 sends)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from minikafka_chaos.verdict import verifier
from minikafka_chaos.verdict.evidence import Evidence
from minikafka_chaos.verdict.verdict import Outcome, judge_run

from bench.judging import write_run

QUADRATIC = re.compile("(nested loop|blockwise nl|ie|piecewise merge) join|cross product", re.IGNORECASE)
ROOT = Path(__file__).parents[3]
SENDS = 3_000
"""Enough rows that DuckDB plans for tables, and not for handfuls."""


def plan(db: duckdb.DuckDBPyConnection, statement: str) -> str:
    return str(db.execute(f"EXPLAIN {statement}").fetchall()[0][1])


@pytest.mark.slow
def test_no_query_multiplies_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path, SENDS)
    run, looked_at, bad = Evidence.run, [], []

    def explained(self: Evidence, *statements: str) -> None:
        for statement in statements:
            if "SELECT" in statement and not statement.lstrip().startswith(("CREATE VIEW", "CREATE TABLE lines")):
                looked_at.append(statement)
                if found := QUADRATIC.search(plan(self.db, statement)):
                    bad.append((found.group(), statement))
            run(self, statement)

    monkeypatch.setattr(Evidence, "run", explained)
    every = [replace(check, about=None) for check in verifier.CHECKS]  # also those that would find nothing here
    monkeypatch.setattr(verifier, "CHECKS", every)
    assert judge_run(tmp_path).outcome is Outcome.PASSED
    assert len(looked_at) > 30
    assert sum("TEMP TABLE found AS" in one for one in looked_at) >= len(every)
    assert bad == []


def test_such_a_query_would_be_seen() -> None:
    db = duckdb.connect()
    db.execute("CREATE TABLE t AS SELECT range AS n FROM range(3000)")
    assert QUADRATIC.search(plan(db, "SELECT count(*) FROM t a JOIN t b ON a.n + b.n > 7"))


@pytest.mark.full
def test_memory_does_not_grow_with_the_history() -> None:
    """It was 0.83 KiB a line: 34 GB for ten million sends."""
    command = [sys.executable, "-m", "bench.judging", "--sends", "20000", "120000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    small, large = (json.loads(line) for line in done.stdout.splitlines())
    grown_kib = 1024 * (large["peak_mib"] - small["peak_mib"])
    assert grown_kib / (large["lines"] - small["lines"]) < 0.4
