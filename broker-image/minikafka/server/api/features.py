"""UpdateFeatures, 0 to 2, by the controller only; every update but to level 0 is refused.

No feature has levels here. What Kafka switches by ``metadata.version`` and its sisters depends on the brokers' program alone,
and ApiVersions reports none of them; all of Kafka's are at level 0, where they may stay.
"""

from __future__ import annotations

from typing import Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.api.spec import ANSWERED_WHEN_DONE, ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(
    ApiKey.UPDATE_FEATURES,
    0,
    2,
    controller_only=True,
    unread={
        "timeout": ANSWERED_WHEN_DONE,
        "feature_updates.allow_downgrade": "there is no lower level than 0",
        "validate_only": "no update that is allowed changes anything",
    },
)

KAFKA_FEATURES = frozenset(
    f"{name}.version"
    for name in ("metadata", "kraft", "transaction", "group", "eligible.leader.replicas", "share", "streams")
)
UPGRADE, UNSAFE_DOWNGRADE = 1, 3


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    try:
        services.topics.require_controller()
    except KafkaError as error:
        return {"error_code": error.code, "error_message": str(error), "results": []}
    for update in request.feature_updates:
        refused = reason_refused(update.feature, update.max_version_level, getattr(update, "upgrade_type", UPGRADE))
        if refused is not None:
            message = (
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.max_version_level} for feature {update.feature}. {refused}"
            )
            return {"error_code": ErrorCode.INVALID_UPDATE_VERSION, "error_message": message, "results": []}
    done = [
        {"feature": update.feature, "error_code": ErrorCode.NONE, "error_message": None}
        for update in request.feature_updates
    ]
    return {"error_code": ErrorCode.NONE, "error_message": None, "results": done}


def reason_refused(feature: str, level: int, upgrade_type: int) -> str | None:
    """Why a feature cannot have a level, in the order in which Kafka looks (``FeatureControlManager``); None: it can."""
    if not UPGRADE <= upgrade_type <= UNSAFE_DOWNGRADE:
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if level > 0:
        return "The controller does not support this feature."
    if feature not in KAFKA_FEATURES:
        return f"Feature {feature} not found."
    return None


SPECS = ((SPEC, handle),)
