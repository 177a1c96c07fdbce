"""Prose is wrapped at 100 characters, and nothing else of a page changes."""

from __future__ import annotations

import pytest

from tools.wrap import wrapped

LONG = "word " * 24 + "end"
FIRST, SECOND = ("word " * 20).rstrip(), "word word word word end"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        pytest.param(f"{LONG}\n", f"{FIRST}\n{SECOND}\n", id="a paragraph"),
        pytest.param(f"short\n\n{LONG}\n", f"short\n\n{FIRST}\n{SECOND}\n", id="only what is too long"),
        pytest.param(
            f"- {LONG}\n- short\n",
            "- " + ("word " * 19).rstrip() + "\n  word " + SECOND + "\n- short\n",
            id="an item hangs",
        ),
        pytest.param(
            "x" * 97 + " - 1. # go on\n", "x" * 97 + " - 1. #\ngo on\n", id="no list or heading appears by a break"
        ),
        pytest.param("x" * 90 + " `minikafka up` is\n", "x" * 90 + "\n`minikafka up` is\n", id="commands stay whole"),
        *(
            pytest.param(text, text, id=name)
            for name, text in {
                "a table": f"| {LONG} |\n",
                "a heading": f"# {LONG}\n",
                "fenced code": f"```\n{LONG}\n```\n",
                "indented code": f"text\n\n    {LONG}\n",
                "code in a list": f"- item\n\n      {LONG}\n",
                "a generated part": f"<!-- begin x: made -->\n\n{LONG}\n\n<!-- end x -->\n",
                "a long link": "https://" + "x" * 120 + "\n",
            }.items()
        ),
    ],
)
def test_wrapped(page: str, expected: str) -> None:
    assert wrapped(page) == expected
    assert wrapped(expected) == expected


def test_a_code_span_that_is_too_long_does_not_join_those_around_it() -> None:
    names = [f"`test_{letter * 70}`" for letter in "abc"]
    assert wrapped(", ".join(names)) == ",\n".join(names)
