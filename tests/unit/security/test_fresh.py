"""Reading files that others may put something else in the place of."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from minikafka.config.oauth_settings import OAuthSettings
from minikafka.kubernetes.credentials import Access
from minikafka.security.bearer import read_tokens
from minikafka.security.fresh import read_at_most
from minikafka.security.oauthbearer import TokenRules, read_token_file
from minikafka.security.tls import TlsSettings, client_context, server_context
from minikafka.transport.token_keys import open_token_keys


def _keys(path: Path) -> None:
    open_token_keys(OAuthSettings(path.as_uri(), 1, 1, 1, TokenRules(), TlsSettings()), lambda _: None)


READERS: dict[str, Callable[[Path], object]] = {
    "key store": lambda path: server_context(TlsSettings(keystore_location=str(path))),
    "trust store": lambda path: client_context(TlsSettings(truststore_location=str(path))),
    "tokens of metrics": lambda path: read_tokens(str(path)),
    "keys of tokens": _keys,
    "token": lambda path: read_token_file(str(path)),
    "token of a pod": lambda path: Access("http://localhost", None, token_file=path).token(),
}


@pytest.mark.timeout(10)
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, read: Callable[[Path], object]) -> None:
    """Opening a FIFO waits for whoever writes it, and /dev/zero is without an end; others are served by the same loop."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(Exception, match="no regular file") as refused:
            read(path)
        assert str(path) in str(refused.value) and "\n" not in str(refused.value)


def test_a_command_may_be_given_a_pipe_of_a_bounded_size(tmp_path: Path) -> None:
    """As by ``--command-config <(...)``."""
    ours, theirs = os.pipe()
    os.write(theirs, b"a=b")
    os.close(theirs)
    assert read_at_most(f"/dev/fd/{ours}", 3, may_wait=True) == b"a=b"
    os.close(ours)
    with pytest.raises(OSError, match="more than 3 bytes"):
        read_at_most("/dev/zero", 3, may_wait=True)
    with pytest.raises(IsADirectoryError):
        read_at_most(tmp_path, 3)
