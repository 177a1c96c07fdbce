"""The plugin of pytest, in a pytest of its own."""

from __future__ import annotations

import pytest

pytest_plugins = ("pytester",)

INI = """
[pytest]
minikafka_mode = in-process
asyncio_default_fixture_loop_scope = function
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini(INI)
    return pytester


@pytest.mark.slow
def test_a_cluster_is_kept_between_tests_and_whole_at_the_beginning_of_each(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        seen = []

        def test_breaks_it(minikafka_cluster):
            seen.append((minikafka_cluster, minikafka_cluster.create_topic("mine")))
            minikafka_cluster.kill(1)
            minikafka_cluster.pause(2)

        def test_finds_it_whole(minikafka_cluster):
            assert minikafka_cluster is seen[0][0]
            assert {each.condition for each in minikafka_cluster.status()} == {"running"}
            assert minikafka_cluster.create_topic("mine") == "mine"

        @pytest.mark.minikafka(brokers=1, settings={"num.partitions": 3, "minikafka.test.hooks": True})
        def test_has_its_own(minikafka_cluster):
            assert minikafka_cluster is not seen[0][0]
            assert len(minikafka_cluster.status()) == 1
        """
    )
    project.runpytest_inprocess("-q").assert_outcomes(passed=3)


@pytest.mark.slow
def test_a_test_that_fails_is_told_what_was_done_and_what_became_of_the_records(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from confluent_kafka import Producer

        def test_fails(minikafka_cluster):
            topic = minikafka_cluster.create_topic()
            producer = Producer({"bootstrap.servers": minikafka_cluster.bootstrap, "log_level": 0})
            producer.produce(topic, "a")
            producer.flush()
            minikafka_cluster.kill_leader(topic)
            assert False
        """
    )
    result = project.runpytest_inprocess("-q")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*minikafka*", "*Kill broker-* (leader of topic-*", "*Passed: no acknowledged record lost: 1 *"]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("minikafka_scope = test", "minikafka_scope: 'test' is not one of session"),
        ("minikafka_mode = docker", "minikafka_mode: 'docker' is not one of processes"),
        ("minikafka_brokers = three", "minikafka_brokers: 'three' is not a whole number"),
        ("minikafka_settings = log.dirs", "minikafka_settings: 'log.dirs' is not KEY=VALUE"),
        ("minikafka_users = alice", "minikafka_users: 'alice' is not NAME=PASSWORD"),
    ],
)
def test_a_configuration_that_cannot_be(pytester: pytest.Pytester, lines: str, words: str) -> None:
    pytester.makeini(f"[pytest]\nasyncio_default_fixture_loop_scope = function\n{lines}\n")
    pytester.makepyfile("def test_it(minikafka_cluster): pass")
    result = pytester.runpytest_inprocess("-q")
    assert result.ret != 0
    result.stdout.fnmatch_lines([f"*{words}*"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ("broker=2", "marker minikafka: 'broker' is unknown; allowed: brokers, in_process, settings, tls, users"),
        ("3", "marker minikafka: 3 is unknown"),
        ("brokers='3'", "marker minikafka: brokers: '3' is not a whole number"),
        ("settings=['a=b']", "marker minikafka: settings: *'a=b'* is not a dictionary"),
        ("in_process='no'", "marker minikafka: in_process: 'no' is not True or False"),
        ("brokers=0", "brokers: 0 is not a whole number from 1 to 100"),
        ("settings={'node.id': 1}", "config: node.id: a cluster in this process sets it"),
        ("users=['secret']", "marker minikafka: users: what is given is not a dictionary"),
        ("users={'alice': ['secret']}", "users: the password of alice is not text"),
        ("users={1: 'secret', 'alice': 'x'}", "users: 1 is not a name of letters, digits"),
        ("users={'a b': 'x'}", "users: 'a b' is not a name of letters, digits"),
        ("settings={'num.partitions': None}", "settings: num.partitions: None is not text, a whole number"),
        ("settings={'num.partition': '3'}", "config: num.partition=3: unknown key; did you mean num.partitions?"),
    ],
)
def test_a_marker_that_cannot_be_is_one_line(project: pytest.Pytester, marker: str, words: str) -> None:
    project.makepyfile(
        f"import pytest\n\n@pytest.mark.minikafka({marker})\ndef test_it(minikafka_cluster):\n    pass\n"
    )
    result = project.runpytest_inprocess("-q")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"minikafka_cluster: {words.replace('[', '[[]')}*"])
    assert "Traceback" not in result.stdout.str() and "plugin.py" not in result.stdout.str()
    assert "secret" not in result.stdout.str()
