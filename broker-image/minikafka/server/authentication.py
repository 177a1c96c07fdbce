"""The door of a listener with SASL: who logs in, before anything else is served (KIP-43, KIP-152), and again (KIP-368).

ApiVersions and SaslHandshake are all that a stranger is answered; anything else closes the connection. A failed login is
answered after ``connection.failed.authentication.delay.ms``, and then closed. Every refusal is one event.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Collection
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any

from minikafka.config.listener_security import ListenerSecurity
from minikafka.protocol import messages, wire
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.wire import MalformedRequest, RequestHeader
from minikafka.security.oauthbearer import MECHANISM as OAUTHBEARER
from minikafka.security.principal import user
from minikafka.security.sasl_server import Mechanism, NotAuthenticated, OAuthBearer, Plain, Scram
from minikafka.security.scram import ScramCredential, Shape, false_salt
from minikafka.server.api import sasl

if TYPE_CHECKING:
    from minikafka.server.connection import ClientConnection, Slot

LOGIN_AGAIN_SECONDS_MIN = 1.0
"""A client that logs in again sooner is told that it is in the wrong state, as Kafka does."""

NAMES = {int(key): key.api_name for key in ApiKey}

TOKENS_ONLY = 0
"""The version of SaslHandshake after which tokens come as they are, without requests around them."""


class State(Enum):
    """Of a connection."""

    STRANGER = auto()
    """No mechanism is chosen yet."""
    EXCHANGE = auto()
    """A mechanism is, and is at work."""
    OPEN = auto()
    """It is known who it is."""
    REFUSED = auto()
    """Nothing more is read."""


class Door:
    """Of one connection."""

    def __init__(self, connection: ClientConnection, security: ListenerSecurity) -> None:
        self._connection = weakref.proxy(
            connection
        )  # a circle would keep it long after it is closed, until cycles are collected
        self._context, self._metadata = connection.services.context, connection.services.metadata
        self._security = security
        self._state = State.STRANGER
        self._is_open = False
        """Whether it was open once: then this is another login, of the same user."""
        self._name = ""
        self._by_store = False
        """Whether it is a password of the cluster store that counts."""
        self._mechanism: Mechanism | None = None
        self._tokens_only = False
        self._began = self._ends = float("-inf")
        """Of the session, by the broker's clock. It ends never: infinity."""
        self._timer: asyncio.TimerHandle | None = None
        self._max_frame_bytes = connection.max_frame_bytes
        connection.max_frame_bytes = min(self._max_frame_bytes, self._context.config.sasl_server_max_receive_size)

    @property
    def is_open(self) -> bool:
        """Whether it is known who it is."""
        return self._is_open

    def closed(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
        if (refusal := self._unheard()) is not None:
            self._tell(str(refusal))

    def _unheard(self) -> NotAuthenticated | None:
        """A refusal that is not answered yet, nor told of."""
        if self._state is not State.EXCHANGE or self._mechanism is None:
            return None
        return self._mechanism.refusal

    # -- requests -------------------------------------------------------------------------------------------------------

    def takes(self, frame: memoryview) -> bool:
        """Whether a request is the door's own concern, and done. Raises MalformedRequest: the connection is to be closed."""
        if self._state is State.EXCHANGE and self._tokens_only:
            self._token(bytes(frame))
            return True
        key = int.from_bytes(frame[:2], "big")
        if self._is_open:
            return self._takes_of_a_guest(key, frame)
        if self._state is State.REFUSED:
            return True
        if key == ApiKey.API_VERSIONS:
            return False
        if key not in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            name = NAMES.get(key, f"API key {key}")
            if self._unheard() is None:
                self._tell(f"asks for {name} before it has logged in")
            raise MalformedRequest(f"{name} before the client has logged in on listener {self._connection.listener}")
        self._serve(frame)
        return True

    def _takes_of_a_guest(self, key: int, frame: memoryview) -> bool:
        now = self._context.clock.now()
        if key == ApiKey.SASL_HANDSHAKE and self._state is State.OPEN:
            if now - self._began < LOGIN_AGAIN_SECONDS_MIN or self._tokens_only:
                return False  # answered by the API's own handler: ILLEGAL_SASL_STATE
            self._began = now
            self._serve(frame)
            return True
        if self._state is State.REFUSED:
            return True
        if self._state is State.EXCHANGE and key == ApiKey.SASL_AUTHENTICATE:
            self._serve(frame)
            return True
        if now > self._ends and key != ApiKey.API_VERSIONS:
            self._tell("the session is over, and it has not logged in again", self._connection.principal)
            self._connection.heartbeats_of = None  # this broker hangs up: the other one is not dead
            self._connection.close()
            return True
        return False

    def _serve(self, frame: memoryview) -> None:
        self._check_size(len(frame))
        header = wire.read_header(frame)
        spec = sasl.HANDSHAKE if header.api_key == ApiKey.SASL_HANDSHAKE else sasl.AUTHENTICATE
        if not spec.min_version <= header.api_version <= spec.max_version:
            raise MalformedRequest(f"{spec.name} v{header.api_version} is not supported")
        body = bytes(frame[header.end :])
        if messages.is_flexible(header.api_key, header.api_version):
            try:
                body = body[wire.skip_tags(body, 0) :]
            except IndexError as error:
                raise MalformedRequest(f"{spec.name} v{header.api_version} ends in its header") from error
        request = messages.decode_request(header.api_key, header.api_version, body)
        slot = self._connection.begin(header.api_key, len(frame))
        if spec is sasl.HANDSHAKE:
            self._shake_hands(header, slot, request.mechanism)
        else:
            self._authenticate(header, slot, request.auth_bytes)

    def _answer(self, header: RequestHeader, slot: Slot, values: dict[str, Any]) -> None:
        if values["error_code"]:
            self._connection.count_errors(header.api_key, (values["error_code"],))
        flexible = messages.is_flexible(header.api_key, header.api_version)
        body = messages.encode_response(header.api_key, header.api_version, values)
        self._connection.answer(slot, [wire.response_frame(header.correlation_id, body, flexible)])

    # -- SaslHandshake ----------------------------------------------------------------------------------------------------

    def _shake_hands(self, header: RequestHeader, slot: Slot, name: str) -> None:
        mechanisms = self._security.mechanisms or {}
        if self._state is State.EXCHANGE:
            self._answer(header, slot, {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []})
            self._tell("SaslHandshake twice")
            self._state = State.REFUSED
            self._connection.close_after_answers()
            return
        if name not in mechanisms or (self._is_open and name != self._name):
            reason = "another mechanism than before" if name in mechanisms else "a mechanism that is not enabled"
            self._tell(reason)
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            self._answer(header, slot, {"error_code": code, "mechanisms": list(mechanisms)})
            self._state = State.REFUSED
            self._connection.close_after_answers()
            return
        self._name = name
        self._state = State.EXCHANGE
        self._tokens_only = header.api_version == TOKENS_ONLY
        self._mechanism = self._new_mechanism(name)
        self._answer(header, slot, {"error_code": ErrorCode.NONE, "mechanisms": list(mechanisms)})

    def _new_mechanism(self, name: str) -> Mechanism:
        if name == "PLAIN":
            module = (self._security.mechanisms or {})[name]
            assert module is not None, "the configuration was checked"
            return Plain(module.users)
        if name == OAUTHBEARER:
            return OAuthBearer(partial(self._context.channels.believe, self._connection.listener))
        return Scram(name, self._credential, self._secret(), self._shapes(name))

    def _credential(self, mechanism: str, name: str) -> ScramCredential | None:
        """As whom brokers log in counts by their settings only: in the store anybody may have put him who may alter users."""
        found = self._metadata.image.scram.get((name, mechanism))
        if self._security.login is None or self._security.login.username != name:
            self._by_store = True
            return found

        def salted() -> tuple[bytes, int]:
            if found is not None:  # the same salt as on other listeners, or it would give away the name
                return found.salt, found.iterations
            return false_salt(mechanism, name, self._secret(), self._shapes(mechanism))

        return self._context.channels.brokers_credential(self._connection.listener, mechanism, name, salted)

    def _shapes(self, mechanism: str) -> Collection[Shape]:
        return self._metadata.image.scram_shapes[mechanism].shown

    def _secret(self) -> bytes:
        """The same on all brokers, and after a restart: salts of unknown users must not give themselves away by changing.

        Nothing that anybody could guess: who asks for unknown users' salts could try his guesses at home.
        """
        return self._metadata.image.scram_secret or self._context.channels.passing_secret

    # -- SaslAuthenticate, and bare tokens ----------------------------------------------------------------------------------

    def _authenticate(self, header: RequestHeader, slot: Slot, token: bytes) -> None:
        if self._state is not State.EXCHANGE:
            self._tell("SaslAuthenticate before SaslHandshake")
            raise MalformedRequest("SaslAuthenticate before SaslHandshake")
        try:
            answer, lifetime = self._step(token)
        except NotAuthenticated as refused:
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            values = {"error_code": code, "error_message": refused.public, "auth_bytes": b""}
            self._refuse(refused, partial(self._answer, header, slot, values))
            return
        self._answer(
            header,
            slot,
            {
                "error_code": ErrorCode.NONE,
                "error_message": None,
                "auth_bytes": answer,
                "session_lifetime": lifetime,
            },
        )

    def _check_size(self, size: int) -> None:
        """Of a message of a login; once the door is open frames may be larger. Raises MalformedRequest."""
        allowed = self._context.config.sasl_server_max_receive_size
        if size > allowed:
            raise MalformedRequest(
                f"a login with a message of {size} bytes; sasl.server.max.receive.size allows {allowed}"
            )

    def _token(self, token: bytes) -> None:
        self._check_size(len(token))
        slot = self._connection.begin(ApiKey.SASL_AUTHENTICATE, len(token))
        try:
            answer, _ = self._step(token)
        except NotAuthenticated as refused:
            self._refuse(refused, partial(self._connection.answer, slot, []))
            return
        self._connection.answer(slot, [len(answer).to_bytes(4, "big") + answer])

    def _step(self, token: bytes) -> tuple[bytes, int]:
        """What the mechanism answers; and, when it was the last step, how long the session is. Raises NotAuthenticated."""
        mechanism = self._mechanism
        assert mechanism is not None, "a handshake has chosen it"
        answer = mechanism.step(token)
        if not mechanism.is_done:
            return answer, 0
        principal = user(mechanism.user)
        if self._is_open and principal != self._connection.principal:
            raise NotAuthenticated(
                f"Cannot change principals during re-authentication from {self._connection.principal} to {principal}",
                "another user than before",
                mechanism.user,
            )
        lifetime = self._lifetime_ms(mechanism.expires)
        self._open(principal, lifetime)
        return answer, lifetime or 0

    def _open(self, principal: str, lifetime: int | None) -> None:
        self._state, self._is_open, self._mechanism = State.OPEN, True, None
        connection = self._connection
        if self._by_store and not connection.services.authorization.enabled:  # anybody may have made that user
            connection.inter_broker = False
        connection.authenticated(principal)
        connection.max_frame_bytes = self._max_frame_bytes
        self._began = self._context.clock.now()
        self._ends = float("inf") if lifetime is None else self._began + lifetime / 1000

    def _lifetime_ms(self, expires: float | None) -> int | None:
        """How long a session is that begins now, with what is valid until ``expires`` (Unix time); None: for ever.

        0 when it is over at once, because ``clock.skew.seconds`` let a token in whose end has passed; a client is told the same
        number as by Kafka then, and does not log in again with that token.
        """
        longest = (self._security.reauth_ms or {}).get(self._name, 0) or None
        if expires is None:
            return longest
        valid = max(int(expires * 1000) - self._context.clock.unix_ms(), 0)
        return valid if longest is None else min(longest, valid)

    # -- who is not let in ------------------------------------------------------------------------------------------------

    def _tell(self, reason: str, principal: str | None = None) -> None:
        self._connection.refused(reason, principal)

    def _refuse(self, refused: NotAuthenticated, answer: Any) -> None:
        """Answer later, and hang up.

        Answers have an order, so that the client is told when those before it are: a JoinGroup may wait for other members.
        """
        self._tell(str(refused), user(refused.user) if refused.user else None)
        self._state = State.REFUSED
        connection = self._connection
        connection.stop_reading("refused")
        loop, config = connection.loop, self._context.config
        assert loop is not None

        def hang_up() -> None:
            connection.waiting_fetch.overtaken()
            answer()
            self._timer = loop.call_later(config.minikafka_authentication_timeout_ms / 1000, connection.close)
            connection.close_after_answers()

        self._timer = loop.call_later(config.connection_failed_authentication_delay_ms / 1000, hang_up)
