"""Pages that are written by people but for some parts, which stand between two comments and are written by a command."""

from __future__ import annotations


def _begin(part: str) -> str:
    return f"<!-- begin {part}: written by a command, do not edit -->"


def _end(part: str) -> str:
    return f"<!-- end {part} -->"


def replaced(page: str, part: str, text: str) -> str:
    """The page with another text in one of its parts. ValueError: the page has no such part."""
    begin, end = _begin(part), _end(part)
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"the page has no lines {begin!r} and {end!r}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
