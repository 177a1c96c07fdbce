"""The examples in Go, Java and Node, without running them: what they ask of the control port exists, and the pages name them."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
PATHS = json.loads((ROOT / "docs/reference/control.openapi.json").read_text(encoding="utf-8"))["paths"]
GLOBS = {"go": "**/*_test.go", "java": "src/**/*Test.java", "node": "*.test.js"}
CALL = re.compile(r"""\bverb\((?:t,)?\s*["'](\w+)["']""", re.IGNORECASE)
NAMES = {
    ".go": re.compile(r'"(\w+)"\s*:'),
    ".java": re.compile(r'"(\w+)"\s*,[^,]*(?:,|$)'),
    ".js": re.compile(r"[,{]\s*(\w+)\s*(?=[:,}])"),
}
"""A field of the outermost object, in what stands between the verb and the end of its call."""


def calls(suffix: str, text: str) -> list[tuple[str, set[str]]]:
    """The verbs that a test calls, each with its fields."""
    return [
        (
            call[1],
            set(NAMES[suffix].findall(outermost(text[call.end() :]).partition("Map.of")[2 * (suffix == ".java")])),
        )
        for call in CALL.finditer(text)
    ]


def outermost(text: str) -> str:
    """What comes before the end of the call, without what stands in brackets within its brackets."""
    depth, kept = 0, ""
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if depth < 0:
            return kept
        kept += letter if depth < 2 else ""
    raise AssertionError(f"no end of a call: {text[:80]}")


def test_calls_are_read_as_each_language_has_them() -> None:
    go = 'lab.Verb(t, "inject_error", lab.Fields{"topic": topic, "config": map[string]string{"min.x": "2"}}, &found)'
    java = 'lab.verb(\n"delay",\nMap.of("api", "Produce", "millis", of(1, 2))); lab.verb("heal", Map.of());'
    node = "await lab.verb('create_topic', { topic, count: 1, config: { a: 'b' } }); lab.verb('heal')"
    assert calls(".go", go) == [("inject_error", {"topic", "config"})]
    assert calls(".java", java) == [("delay", {"api", "millis"}), ("heal", set())]
    assert calls(".js", node) == [("create_topic", {"topic", "count", "config"}), ("heal", set())]


def test_verbs_that_examples_call_take_these_fields() -> None:
    for language, pattern in GLOBS.items():
        called = []
        for path in (EXAMPLES / language).glob(pattern):
            called += calls(path.suffix, path.read_text(encoding="utf-8"))
        assert len(called) >= 3, language
        for verb, given in called:
            body = PATHS[f"/v1/{verb}"]["post"]["requestBody"]
            schema = body["content"]["application/json"]["schema"]
            assert set(schema.get("required", ())) <= given <= set(schema["properties"]), (language, verb)


def test_the_page_names_every_file_that_is_there_to_be_read() -> None:
    linked = set(re.findall(r"\]\(((?:go|java|node)/[^)]+)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8")))
    suffixes = {".go", ".java", ".js"}
    there = {path.relative_to(EXAMPLES) for path in EXAMPLES.glob("*/**/*") if path.suffix in suffixes}
    apart = {"node_modules", "target"}
    assert linked == {str(path) for path in there if not apart.intersection(path.parts)}


def test_the_guide_prints_a_test_that_runs() -> None:
    guide = (ROOT / "docs/guide/test-your-service.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```js\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    assert block in (EXAMPLES / "node/balance.test.js").read_text(encoding="utf-8")


def test_versions_are_exact_and_no_registry_is_named() -> None:
    files = ("go/go.mod", "go/go.sum", "java/pom.xml", "node/package.json")
    found = {name: (EXAMPLES / name).read_text(encoding="utf-8") for name in files}
    assert all(
        re.fullmatch(r"[\d.]+", each) for each in json.loads(found["node/package.json"])["dependencies"].values()
    )
    assert not re.search(r"<version>[^<]*[^\d.<][^<]*</version>", found["java/pom.xml"])
    assert not any(re.search(r"registry|<repositor|\bproxy\.", text) for text in found.values())
    assert not (EXAMPLES / "node/package-lock.json").exists()
