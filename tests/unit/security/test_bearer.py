"""Files of bearer tokens, and which header lets in (31 item 3)."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import Mock

import pytest
from minikafka.security.bearer import TOKENS_MAX, AcceptedTokens, TokensUnusable, read_tokens

ONE, TWO = "first-token-0123456789", "second+token/0123456789=="
WRONG = "a token that is not accepted"


def test_each_of_several_tokens_lets_in(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"{ONE}\n\n  {TWO}\r\n")
    assert read_tokens(str(path)) == (ONE, TWO)
    accepted = AcceptedTokens(str(path))
    for authorization in (f"Bearer {ONE}", f"bearer  {TWO} "):
        assert accepted.refusal([authorization]) == ""


def test_what_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(ONE)
    accepted = AcceptedTokens(str(path))
    assert accepted.refusal([]) == "no token"
    for refused in ("", ONE, f"Basic {ONE}", "Bearer", f"Bearer {ONE[:-1]}", f"Bearer {ONE}x", "Bearer \xff\udc80"):
        assert accepted.refusal([refused]) == WRONG, refused
    assert accepted.refusal([f"Bearer {ONE}"] * 2) == WRONG, "which of them would count?"


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    for text, problem in (
        ("", "0 tokens"),
        ("\n" * (1 << 17), "more than 65536 bytes"),
        (f"{ONE}\nshort\n", "line 2 is no token"),
        (f"{ONE} {TWO}", "line 1 is no token"),
        ("\n".join(f"{ONE}{number}" for number in range(TOKENS_MAX + 1)), f"{TOKENS_MAX + 1} tokens"),
        (f"{ONE}\u00e9", "no text that can be read"),
    ):
        path.write_text(text)
        with pytest.raises(TokensUnusable, match=problem) as refused:
            AcceptedTokens(str(path))
        assert ONE not in str(refused.value) and "allowed: " in str(refused.value)
    with pytest.raises(TokensUnusable, match="No such file"):
        read_tokens(str(tmp_path / "nowhere"))


def test_a_changed_file_counts_at_once_and_an_unusable_one_does_not(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(ONE)
    told: list[str] = []
    accepted = AcceptedTokens(str(path), told.append, lambda: told.append("renewed"))

    def replace(text: str) -> None:
        (tmp_path / "next").write_text(text)
        os.replace(tmp_path / "next", path)

    replace(f"{ONE}\n{TWO}\n")
    assert [accepted.refusal([f"Bearer {token}"]) for token in (ONE, TWO)] == ["", ""]
    replace(f"{TWO}\n")
    assert [accepted.refusal([f"Bearer {token}"]) for token in (ONE, TWO)] == [WRONG, ""]
    replace("")
    assert accepted.refusal([f"Bearer {TWO}"]) == ""
    assert told[:2] == ["renewed", "renewed"] and "0 tokens" in told[2] and len(told) == 3


def test_a_file_that_is_mended_by_its_permissions_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its text nor its time of modification changes; the token that was to go would be accepted for good."""
    path = tmp_path / "tokens"
    path.write_text(ONE)
    accepted = AcceptedTokens(str(path))
    with monkeypatch.context() as patch:
        patch.setattr(
            "minikafka.security.bearer.read_at_most", Mock(side_effect=PermissionError(13, "Permission denied"))
        )  # root may read all
        path.write_text(TWO)
        path.chmod(0o000)
        assert accepted.refusal([f"Bearer {ONE}"]) == ""
    path.chmod(0o644)
    assert [accepted.refusal([f"Bearer {token}"]) for token in (ONE, TWO)] == [WRONG, ""]
