"""What people ask of an experiment by annotations: to end it, or to let it go. The controller and the runner read them alike."""

from __future__ import annotations

from typing import Final

from minikafka_chaos.controller.kinds import ABORT_ANNOTATION, FORCE_ANNOTATION, Object

_VALUE_MAX: Final = 40


def asks(experiment: Object, annotation: str) -> bool:
    """Return whether an annotation says ``true``, in whatever case: YAML and people write True and TRUE, too."""
    return _value(experiment, annotation).lower() == "true"


def unread(experiment: Object) -> str:
    """Annotations with another value, which do nothing, and what is allowed; empty when there are none."""
    wrong = [
        f"annotation {name}={_value(experiment, name)[:_VALUE_MAX]!r} does nothing; allowed: true"
        for name in (ABORT_ANNOTATION, FORCE_ANNOTATION)
        if name in _annotations(experiment) and not asks(experiment, name)
    ]
    return "; ".join(wrong)


def _value(experiment: Object, name: str) -> str:
    return str(_annotations(experiment).get(name) or "")


def _annotations(experiment: Object) -> Object:
    return experiment["metadata"].get("annotations") or {}
