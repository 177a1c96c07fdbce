"""Models that a structural schema cannot say are refused, with the field's name."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka_kube.api.part import Part
from minikafka_kube.api.schema import structural


def test_unions_are_refused() -> None:
    class Odd(Part):
        value: int | str

    with pytest.raises(ValueError, match=r"Odd\.value: a structural schema knows no unions"):
        structural(Odd)


def test_anything_is_refused() -> None:
    class Odd(Part):
        value: Any

    with pytest.raises(ValueError, match=r"Odd\.value: a structural schema needs one type"):
        structural(Odd)
