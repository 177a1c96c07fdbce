"""The documentation as a site (`make site`), a hook of mkdocs: every page of the repository, as it is read there.

Pages are where the repository has them, so links among them need no change. Links to other files lead to the
repository. What a page would fetch from elsewhere ends the build, as a link to nothing does.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
REPOSITORY = "https://github.com/minikafka/minikafka"
INDEX = "docs/README.md"
TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
SHOWN = (".md", ".png", ".svg", "tools/site.css")
FENCED = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s:]+)(#[^)\s]*)?\)")
FETCHED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^>]*>")


def anchor(heading: str, _separator: str) -> str:
    """Make the anchor of a heading, as GitHub does."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Order the pages as the index of the documentation does."""
    config.nav = [
        {"MiniKafka": [*TOP, "docs/STATUS.md"]},
        *_rooms(),
        {"More": _rest()},
    ]
    return config


def _tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def _rooms() -> list[dict[str, list[str]]]:
    """The sections of the index, each with the pages that its table has."""
    rooms = []
    for section in (ROOT / INDEX).read_text(encoding="utf-8").split("\n## ")[1:]:
        title = section.partition("\n")[0].partition(":")[0]
        rows = "\n".join(line for line in section.splitlines() if line.startswith("| ["))
        pages = [posixpath.normpath(f"docs/{link}") for link, _ in LINK.findall(rows)]
        if title == "Decisions":
            pages = sorted(page for page in _tracked() if page.startswith("docs/decisions/") and page.endswith(".md"))
        rooms.append({title: pages})
    return rooms


def _rest() -> list[str]:
    rest = [file for file in _tracked() if file.endswith(".md") and not file.startswith("docs/") and file not in TOP]
    return [INDEX, *rest]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take the repository's pages, pictures and the style, where they are, instead of the folder `docs`."""
    theme = [file for file in files if file.src_dir != config.docs_dir]
    shown = [file for file in _tracked() if file.endswith(SHOWN)]
    return Files([*theme, *(File.generated(config, file, abs_src_path=str(ROOT / file)) for file in shown)])


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: object) -> str:
    """Lead links to what is no page to the repository."""

    def led(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), match[1]))
        if files.get_file_from_path(target) or not (ROOT / target).exists():
            return match[0]
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"]({REPOSITORY}/{kind}/main/{target}{match[2] or ''})"

    return "".join(part if part.startswith("```") else LINK.sub(led, part) for part in FENCED.split(markdown))


def on_post_page(output: str, *, page: Page, **_: object) -> str:
    """Refuse a page that would fetch something from elsewhere."""
    if fetched := [tag for tag in FETCHED.findall(output) if 'rel="canonical"' not in tag]:
        raise PluginError(f"{page.file.src_uri}: fetches from elsewhere: {fetched[0]}")
    return output
