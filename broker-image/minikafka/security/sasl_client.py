"""The client's side of SASL: what to send, step by step. Whoever has the connection carries it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

from minikafka.security.oauthbearer import END, MECHANISM, first_message, read_token_file
from minikafka.security.scram import HASHES, ScramClient, ScramError


class AuthenticationError(OSError):
    """One side did not believe the other."""


@dataclass(frozen=True, slots=True)
class Login:
    """As whom to log in, and how."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    token_file: str = ""
    """Of OAUTHBEARER, instead of a name and a password; it is read at every login."""


def exchange(login: Login) -> Generator[bytes, bytes, None]:
    """Yields what to send; is sent what was answered. Raises AuthenticationError when the server is not to be believed."""
    if login.mechanism == MECHANISM:
        try:
            token = read_token_file(login.token_file)
        except ValueError as error:
            raise AuthenticationError(str(error)) from error
        if (yield first_message(token)):
            yield END  # whereupon the server says that it does not let us in
            raise AuthenticationError("the token was refused")
        return
    if login.mechanism not in HASHES:
        yield f"\0{login.username}\0{login.password}".encode()
        return
    client = ScramClient(login.mechanism, login.username, login.password)
    try:
        client.check((yield client.final((yield client.first()))))
    except ScramError as error:
        raise AuthenticationError(str(error)) from error
