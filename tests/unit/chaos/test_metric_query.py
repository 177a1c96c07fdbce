"""Queries over one scrape of all brokers: what they mean is what Prometheus means, and what is none is refused in one line."""

from __future__ import annotations

import pytest
from minikafka_chaos.scenario.metric_query import BadQuery, Samples, by_name, parse_query

SAMPLES = by_name(
    {
        0: [
            ("up", {}, 1.0),
            ("lag", {"topic": "t", "partition": "0"}, 3.0),
            ("lag", {"topic": "u", "partition": "0"}, 8.0),
        ],
        1: [("up", {}, 0.0), ("lag", {"topic": "t", "partition": "1"}, 5.0), ("limit", {}, 4.0)],
        2: [],
    }
)


@pytest.mark.parametrize(
    ("query", "holds", "seen"),
    [
        ("1 + 2 * 3 == 7", True, "7 == 7"),
        ("(1 + 2) * 3 == 7", False, "9 == 7"),
        ("-2 - -1 < 0", True, "-1 < 0"),
        ("8 / 4 / 2 == 1", True, "1 == 1"),
        ("1 / 0 > 1e9", True, "inf > 1e+09"),
        ("sum(up) == 1", True, "1 == 1"),
        ("count(up) == 2", True, "2 == 2"),
        ("avg(lag) > 5", True, "5.33333 > 5"),
        ("max(lag) <= 8", True, "8 <= 8"),
        ("min(lag) != 3", False, "3 != 3"),
        ('lag{topic="t"} > 4', True, "[3 5] > 4"),
        ('lag{topic="t", partition="0"} > 4', False, "3 > 4"),
        ('sum(lag{topic!="t"}) == 8', True, "8 == 8"),
        ('sum(lag{topic=~"t|u"}) == 16', True, "16 == 16"),
        ('sum(lag{topic!~"t.*",}) == 8', True, "8 == 8"),
        ('up{broker="1"} == 0', True, "0 == 0"),
        ("sum by (broker) (lag) > 10", True, "[5 11] > 10"),
        ("sum(lag) by (broker, topic) > 10", False, "[3 5 8] > 10"),
        ('lag{topic="t"} == lag', True, "[3 5] == [3 5 8]"),
        ("sum by (broker) (lag) > sum by (broker) (limit)", True, "[5 11] > 4"),
        ("lag * 2 == 16", True, "[6 10 16] == 16"),
        ("2 * lag == 16", True, "[6 10 16] == 16"),
        ("nothing == 0", False, "nothing == 0"),
        ("sum(nothing) == 0", False, "nothing == 0"),
        ('nothing{a=""} < 1', False, "nothing < 1"),
        ('up{topic=""} == 1', True, "[0 1] == 1"),
    ],
)
def test_a_query_holds_when_something_is_left_of_it(query: str, holds: bool, seen: str) -> None:
    assert parse_query(query).answer(SAMPLES) == (holds, seen)


def test_nobody_telling_anything_is_no_steady_state() -> None:
    nobody: Samples = by_name({0: [], 1: []})
    assert not parse_query("sum(up) >= 0").answer(nobody)[0]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", "needs a name at the end"),
        ("up", "needs a comparison"),
        ("sum(up)", "needs a comparison"),
        ("up ==", "needs a name at the end"),
        ("up == 1 == 1", "nothing can follow before '=='"),
        ("sum(up == 1", "needs ')' before '=='"),
        ("rate(up[5m]) > 1", "needs a comparison"),
        ("up{a} == 1", 'needs a="..." before'),
        ('up{a="b" == 1', "needs '}'"),
        ('up{a=~"("} == 1', "no regular expression"),
        ("up ? 1", "cannot be read from '?"),
        ("sum by broker (up) == 1", "needs '('"),
        ("(" * 100 + "1" + ")" * 100 + " == 1", "nested too deeply"),
    ],
)
def test_what_is_no_query_is_refused_in_one_line(query: str, names: str) -> None:
    with pytest.raises(BadQuery) as refused:
        parse_query(query)
    assert names in str(refused.value)
    assert "\n" not in str(refused.value)
