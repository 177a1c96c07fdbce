"""The examples, and the code of guides: run as a reader would run them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
pytest_plugins = ("pytester",)

ROOT = Path(__file__).parents[3]
CODE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
INI = "[pytest]\nminikafka_mode = in-process\nasyncio_default_fixture_loop_scope = function\n"


def test_each_example_service_fails_its_test_as_it_was_and_passes_mended(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider", "-c", str(ROOT / "examples/pytest.ini"),
                                          "--rootdir", str(ROOT / "examples"), str(ROOT / "examples"))  # fmt: skip
    result.assert_outcomes(passed=5, xfailed=5)


@pytest.mark.parametrize(
    ("guide", "blocks", "tests"), [("test-your-service.md", 8, 9), ("reliable-consumers.md", 2, 2)]
)
def test_the_code_of_a_guide_runs_as_it_is_printed(
    pytester: pytest.Pytester, guide: str, blocks: int, tests: int
) -> None:
    found = CODE.findall((ROOT / "docs/guide" / guide).read_text(encoding="utf-8"))
    assert len(found) == blocks
    pytester.makeini(INI)
    pytester.makepyfile(**{f"test_block_{number}": block for number, block in enumerate(found)})
    pytester.runpytest_inprocess("-q").assert_outcomes(passed=tests)
