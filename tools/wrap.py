"""Wraps the prose of pages at 100 characters: ``python -m tools.wrap PAGE...``.

Paragraphs and list items that have a longer line are wrapped anew; tables, code, headings, quotes and generated parts
stay as they are.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

WIDTH = 100
FENCE = re.compile(r"\s*```|<!-- (begin|end) ")
"""What begins or ends code, or a part of the page that is generated."""
APART = re.compile(r"\s*(\||#|<|>|!\[|$)")
"""What is no line of a paragraph: a row of a table, a heading, HTML, a quote, a picture, an empty line."""
ITEM = re.compile(r"\s*([-*]|\d+\.) +")
CODE_SPAN = re.compile(r"`[^`]+`")
KEPT_WHOLE = 62
"""Characters of the longest code span that is not broken."""
STARTS_A_BLOCK = re.compile(r" (?=([-+*]|#+|>|\||\d+[.)])( |$))")
"""Space before a word that would be the sign of a list, a heading, a quote or a table at the start of a line."""
GLUE = "\0"


def wrapped(page: str) -> str:
    """Wrap what is too long in a page of Markdown."""
    done: list[str] = []
    paragraph: list[str] = []
    verbatim = False
    indent = 0

    def end_of_paragraph() -> None:
        done.extend(_wrap(paragraph))
        paragraph.clear()

    for line in page.split("\n"):
        fence = FENCE.match(line) is not None
        verbatim ^= fence
        item = ITEM.match(line)
        if item is None and not paragraph and line and not line.startswith(" "):
            indent = 0
        after_a_gap = not paragraph and line.startswith(" " * (indent + 4))
        if verbatim or fence or after_a_gap or APART.match(line):
            end_of_paragraph()
            done.append(line)
            continue
        if item is not None:
            end_of_paragraph()
            indent = len(item[0])
        paragraph.append(line)
    end_of_paragraph()
    return "\n".join(done)


def _wrap(paragraph: list[str]) -> list[str]:
    if all(len(line) <= WIDTH for line in paragraph):
        return list(paragraph)
    item = ITEM.match(paragraph[0])
    first = item[0] if item else re.match(" *", paragraph[0])[0]  # type: ignore[index]
    text = " ".join(line.strip() for line in paragraph).removeprefix(first.strip()).strip()
    text = CODE_SPAN.sub(lambda span: span[0].replace(" ", GLUE) if len(span[0]) <= KEPT_WHOLE else span[0], text)
    text = STARTS_A_BLOCK.sub(GLUE, text)
    lines = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(GLUE, " ") for line in lines]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(wrapped(path.read_text(encoding="utf-8")), encoding="utf-8")
