"""The tests of other people's suites that fail against MiniKafka, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Declared(NamedTuple):
    """One reason, and the tests (by suite; without their subtests) that fail for it; of those left out with their subtests."""

    why: str
    tests: dict[str, tuple[str, ...]]


DECLARED: tuple[Declared, ...] = (
    Declared("not run, for it waits for transactions, which there are none of", {"franz-go": ("TestTxnEtl",)}),
    Declared(
        "need transactions",
        {
            "kafka-go": ("TestClientFindCoordinator",),
            "kafka-python": (
                "test_producer_integration.test_transactional_producer_messages",
                "test_producer_integration.test_transactional_producer_offsets",
            ),
            "sarama": (
                "TestFuncDescribeTransactions",
                "TestFuncInitProducerId3",
                "TestFuncListTransactions",
                "TestFuncTxnAbortedProduce",
                "TestFuncTxnCommitNoMessages",
                "TestFuncTxnProduce",
                "TestFuncTxnProduceAndCommitOffset",
                "TestFuncTxnProduceEpochBump",
                "TestFuncTxnProduceMultiTxn",
                "TestFuncTxnProduceNoBegin",
                "TestFuncTxnProduceWithBrokerFailure",
            ),
        },
    ),
    Declared(
        "needs compaction, and segments that Apache Kafka 4 refuses, too, as too small",
        {"kafka-go": ("TestReaderReadCompactedMessage",)},
    ),
    Declared(
        "alters log.cleaner.backoff.ms, a setting of the log cleaner, which there is none of",
        {"sarama": ("TestFuncAdminIncrementalAlterConfigs",)},
    ),
    Declared(
        "upgrades the features that brokers name in ApiVersions, of which there are none",
        {"sarama": ("TestFuncAdminUpdateFeatures",)},
    ),
    Declared(
        "its last step looks in a container's log for an exception of Apache Kafka's; what comes before it passes",
        {"sarama": ("TestFuncIdempotentBufferedSequence",)},
    ),
    Declared(
        "takes for granted that a topic which a request for metadata creates is answered LEADER_NOT_AVAILABLE; Apache Kafka "
        "without ZooKeeper answers UNKNOWN_TOPIC_OR_PARTITION, too",
        {"kafka-go": ("TestRebalanceTooManyConsumers",)},
    ),
    Declared(
        "its subtests that look up committed offsets use a function that the test has not set, and end all others with them",
        {"kafka-go": ("TestReaderConsumerGroup",)},
    ),
    Declared(
        "not run, for the test connects by a dialer of its own, with which the client takes no settings of TLS",
        {"franz-go-tls": ("TestIssue769",)},
    ),
    Declared(
        "not run, for it looks up committed offsets by a function that the test has not set",
        {"kafka-go": ("TestReaderConsumerGroup/consumer_group_commits_on_close",)},
    ),
)


def known(suite: str, declared: Iterable[Declared] = DECLARED) -> set[str]:
    """Return the tests of a suite that are declared to fail."""
    return {test for each in declared for test in each.tests.get(suite, ())}
