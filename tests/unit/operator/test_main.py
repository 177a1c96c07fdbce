"""The command line."""

from __future__ import annotations

import pytest
from minikafka_operator.main import parse


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--broker-image: required; allowed: an image's name"),
        (["--broker-image", "x", "--port", "70000"], "--port=70000: allowed: 0 to 65535"),
        (["--broker-image", "x", "--resync-seconds", "0"], "--resync-seconds=0: allowed: 1 and more"),
        (["--broker-image", "x", "--log-format", "xml"], "--log-format"),
    ],
)
def test_bad_input(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MINIKAFKA_BROKER_IMAGE", raising=False)
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIKAFKA_BROKER_IMAGE", "image:1")
    monkeypatch.setenv("MINIKAFKA_NAMESPACES", "a,b")
    assert parse([]).broker_image == "image:1"
    assert parse(["--namespace", "b", "--namespace", "c"]).namespaces == ("a", "b", "c")
