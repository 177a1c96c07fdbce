"""Assertions that two folders share are told as fully as a test's own."""

import pytest

pytest.register_assert_rewrite("tests.unit.metadata.store_conformance")
