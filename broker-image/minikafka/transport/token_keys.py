"""The keys with which others sign access tokens (OAUTHBEARER): of a file, or asked for over HTTP, and kept up to date.

A file is looked at whenever a token comes. An address is asked at start, before any listener opens, then in the background; a
token that names an unknown key has it asked sooner. What cannot be used leaves the keys before in force.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from minikafka.config import ConfigError
from minikafka.config.oauth_settings import JWKS_URL, OAuthSettings
from minikafka.security.fresh import Fresh, read_at_most
from minikafka.security.oauthbearer import AccessToken, path_of
from minikafka.security.shown import shown
from minikafka.security.tls import TlsSettingsError, client_context

if TYPE_CHECKING:
    from minikafka.security.access_tokens import Key

Changed = Callable[[str | None], None]
"""Gets a line when keys cannot be used, and None when others are in force."""


class TokenKeys(Protocol):
    """Of one listener."""

    @property
    def next_round(self) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """What is to be done again and again; None: nothing."""
        ...

    async def read_first(self) -> None:
        """Read them before anybody needs them."""
        ...

    def believe(self, token: str, now: float) -> AccessToken:
        """Read a token at a time (Unix time in seconds). Raises TokenRefused."""
        ...


def open_token_keys(settings: OAuthSettings, changed: Changed) -> TokenKeys:
    """Make the keys of a listener.

    Raises ConfigError: the file cannot be used, the trust store cannot, or the library is not there.
    """
    try:
        import minikafka.security.access_tokens  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"sasl.enabled.mechanisms=OAUTHBEARER: {error.name} is not installed; allowed: with minikafka[oauth]"
        ) from error
    path = path_of(settings.keys_url)
    if path is not None:
        return KeysInFile(path, settings, changed)
    try:
        if settings.trust.has_truststore:
            client_context(settings.trust)
    except TlsSettingsError as error:
        raise ConfigError(str(error)) from error
    from minikafka.transport.key_set_address import KeysAtAddress, fetch

    return KeysAtAddress(settings, partial(fetch, settings.keys_url, settings.trust), changed)


class KeysInFile:
    """Keys of a file."""

    next_round = None

    def __init__(self, path: str, settings: OAuthSettings, changed: Changed) -> None:
        from minikafka.security.access_tokens import KEY_SET_BYTES_MAX, KeysRefused, read_keys, read_token

        def read() -> tuple[Key, ...]:
            try:
                return read_keys(read_at_most(path, KEY_SET_BYTES_MAX))
            except OSError as error:
                raise KeysRefused(error.strerror or str(error)) from None

        self._read_token = read_token
        self._rules = settings.rules
        try:
            self._keys = Fresh([path], read, KeysRefused, changed, partial(changed, None))
        except KeysRefused as error:
            raise ConfigError(f"{JWKS_URL}={shown(settings.keys_url)}: {error}; allowed: a JSON Web Key Set") from error

    async def read_first(self) -> None:
        """They have been."""

    def believe(self, token: str, now: float) -> AccessToken:
        """Read a token. Raises TokenRefused."""
        return self._read_token(token, self._keys.get(), self._rules, now)
