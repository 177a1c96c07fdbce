"""SaslHandshake 0 to 1 and SaslAuthenticate 0 to 2, where they are out of place: ILLEGAL_SASL_STATE.

Where they belong, on a listener with SASL whose client has not logged in, or logs in again, `server.authentication` serves
them before any other request. On other listeners, and of clients that have just logged in, they come here.
"""

from __future__ import annotations

from typing import Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

IN_PLACE = "it is read where clients log in, before there is a handler"

HANDSHAKE = ApiSpec(ApiKey.SASL_HANDSHAKE, 0, 1, unread={"mechanism": IN_PLACE})
AUTHENTICATE = ApiSpec(ApiKey.SASL_AUTHENTICATE, 0, 2, unread={"auth_bytes": IN_PLACE})


async def handshake(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del services, ctx, request
    return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []}


async def authenticate(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del services, ctx, request
    return {
        "error_code": ErrorCode.ILLEGAL_SASL_STATE,
        "error_message": "SaslAuthenticate request received after successful authentication",
        "auth_bytes": b"",
        "session_lifetime": 0,
    }


SPECS = ((HANDSHAKE, handshake), (AUTHENTICATE, authenticate))
