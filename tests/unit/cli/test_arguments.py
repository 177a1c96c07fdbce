"""Types of arguments: what is taken, and that every refusal names the value and what would do."""

from argparse import ArgumentError, ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

import pytest
from minikafka.cli import arguments
from minikafka.client.connection import endpoints
from minikafka.command.exits import CommandError
from minikafka.local.layout import ClusterRecord, write_record


@pytest.mark.parametrize("text", ["localhost:9092", "a:1,b:65535", "[::1]:9092", "10.0.0.1:9092, b:2"])
def test_bootstrap_takes(text: str) -> None:
    assert arguments.bootstrap(text) == text


@pytest.mark.parametrize("text", ["", "localhost", ":9092", "a:0", "a:65536", "a:b", "a:1,", "a:-1"])
def test_bootstrap_refuses(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is not HOST:PORT"):
        arguments.bootstrap(text)


def test_a_data_directory_names_the_brokers(tmp_path: Path) -> None:
    write_record(tmp_path, ClusterRecord("abc", brokers=2, base_port=5000))
    parser = ArgumentParser(exit_on_error=False)
    arguments.add_bootstrap(parser)
    assert parser.parse_args([]).bootstrap == arguments.DEFAULT_BOOTSTRAP
    assert parser.parse_args(["--data", str(tmp_path)]).bootstrap == "127.0.0.1:5000,127.0.0.1:5001"
    with pytest.raises(ArgumentError, match="has no cluster: start one with `minikafka up --data"):
        parser.parse_args(["--data", str(tmp_path / "elsewhere")])
    with pytest.raises(ArgumentError, match="not allowed with argument"):
        parser.parse_args(["--data", str(tmp_path), "--bootstrap", "a:1"])


def test_endpoints() -> None:
    assert endpoints("a:1, [::1]:2") == [("a", 1), ("::1", 2)]


@pytest.mark.parametrize("text", ["a", "a.b_c-D9", "x" * 249, "__consumer_offsets", "..."])
def test_topic_names(text: str) -> None:
    assert arguments.topic_name(text) == text


@pytest.mark.parametrize("text", ["", ".", "..", "a b", "ä", "a/b", "x" * 250, "a\n"])
def test_no_topic_names(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is not a topic name"):
        arguments.topic_name(text)


def test_key_value() -> None:
    assert arguments.key_value("a=b=c") == ("a", "b=c")
    assert arguments.key_value("a=") == ("a", "")
    for text in ("a", "=b", " =b", ""):
        with pytest.raises(ArgumentTypeError, match="is not KEY=VALUE"):
            arguments.key_value(text)
    with pytest.raises(ArgumentTypeError, match="is not UTF-8"):
        arguments.key_value("a\udcff=1")  # byte ff of a command line


def test_settings_refuses_two_values_of_one_key() -> None:
    assert arguments.settings([("a", "1"), ("b", "2"), ("a", "1")]) == {"a": "1", "b": "2"}
    with pytest.raises(CommandError, match="a is given twice, with different values"):
        arguments.settings([("a", "1"), ("a", "2")])


def test_whole_number() -> None:
    parse = arguments.whole_number(1, 5)
    assert [parse("1"), parse("5"), parse(" 3 ")] == [1, 5, 3]
    for text in ("0", "6", "x", "1.5", "", "-1"):
        with pytest.raises(ArgumentTypeError, match="whole number of at least 1 and not above 5"):
            parse(text)
    with pytest.raises(ArgumentTypeError, match=r"of at least 0$"):
        arguments.whole_number(0)("-1")


def test_seconds() -> None:
    assert arguments.seconds("0.5") == 0.5
    for text in ("0", "-1", "nan", "inf", "x", ""):
        with pytest.raises(ArgumentTypeError, match="is not a positive number of seconds"):
            arguments.seconds(text)


def test_moment_is_utc_unless_it_says_otherwise() -> None:
    assert arguments.moment("1970-01-01T00:00:01") == 1000
    assert arguments.moment("1970-01-01T00:00:01.250Z") == 1250
    assert arguments.moment("1970-01-01T01:00:00+01:00") == 0
    assert arguments.moment("1970-01-02") == 86_400_000
    for text in ("yesterday", "", "12:00", "1970-13-01"):
        with pytest.raises(ArgumentTypeError, match="is not a date and time"):
            arguments.moment(text)


def test_replica_assignment_is_that_of_kafka_topics() -> None:
    assert arguments.replica_assignment("0:1:2,1:2:0") == [[0, 1, 2], [1, 2, 0]]
    assert arguments.replica_assignment("7") == [[7]]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("0:x", "not broker ids"),
        ("", "not broker ids"),
        ("0:1,", "not broker ids"),
        ("0:0", "names a broker twice"),
        ("0:1,2", "different numbers of replicas"),
        ("-1", "negative broker id"),
    ],
)
def test_replica_assignment_refuses(text: str, line: str) -> None:
    with pytest.raises(ArgumentTypeError, match=line):
        arguments.replica_assignment(text)


def test_topics_come_in_either_way_each_once() -> None:
    assert arguments.topics_of(Namespace(topics=["a", "b"], topic_option=["b", "c"])) == ["a", "b", "c"]
    assert arguments.topic_of(Namespace(topics=None, topic_option=["a"])) == "a"
    assert arguments.topic_of(Namespace(topics="a", topic_option=["a"])) == "a"
    with pytest.raises(CommandError, match=r"which topic\?"):
        arguments.topic_of(Namespace(topics=None, topic_option=None))
    with pytest.raises(CommandError, match="takes one topic, not 2: a, b"):
        arguments.topic_of(Namespace(topics="a", topic_option=["b"]))


@pytest.mark.parametrize(
    ("text", "millis"),
    [("P7D", 604_800_000), ("PT2H", 7_200_000), ("PT30M", 1_800_000), ("PT0.25S", 250), ("p1dt2h3m4s", 93_784_000)],
)
def test_durations(text: str, millis: int) -> None:
    assert arguments.duration(text) == millis


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "7D", "P1H", "PT1D", "-PT1H", "P1W", "PT1.5H", "PT1H2", "P1D\n"]
)
def test_no_durations(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=r"is not a duration like P7D, PT30M or P1DT2H30M5S"):
        arguments.duration(text)


def test_a_duration_beyond_all_calendars() -> None:
    with pytest.raises(ArgumentTypeError, match="is longer than a duration can be"):
        arguments.duration("P9999999999D")
