"""What a metric is, and how a number and its metric are declared in one place.

A class of numbers declares them as annotated fields, so that counting stays an addition to a plain attribute:

    isr_shrinks: Annotated[int, counter("minikafka_isr_shrinks_total", "Times an ISR led here lost members.")] = 0
"""

from typing import NamedTuple

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


class Metric(NamedTuple):
    """A metric's declaration. ``source`` is the attribute that it is read from."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    source: str = ""


def counter(name: str, says: str, source: str = "") -> Metric:
    """Declare the counter of the field that it annotates; ``source`` where it is read from another attribute."""
    return Metric(name, COUNTER, says, source=source)


def gauge(name: str, says: str) -> Metric:
    """Declare the gauge of the field that it annotates."""
    return Metric(name, GAUGE, says)


def declared(numbers: type, labels: tuple[str, ...] = ()) -> tuple[Metric, ...]:
    """The metrics that a class declares with its fields, in their order."""
    return tuple(
        metric._replace(labels=labels, source=metric.source or name)
        for name, annotation in numbers.__annotations__.items()
        for metric in getattr(annotation, "__metadata__", ())
    )
