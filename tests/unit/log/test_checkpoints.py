"""What the checkpoint files say, and which write counts."""

from __future__ import annotations

from minikafka.protocol.types import TopicPartition

from tests.unit.log.managed import DATA, A, B, open_manager, two_logs


class TestCheckpoints:
    """R11, in Kafka's text formats."""

    def test_formats(self) -> None:
        fs, manager = two_logs()
        manager.logs[A].flush()
        manager.logs[A].increment_log_start_offset(4)
        manager.checkpoint_high_watermarks({A: 9, B: 3})
        manager.checkpoint_recovery_points()
        manager.checkpoint_log_start_offsets()
        assert fs.read_bytes(f"{DATA}/replication-offset-checkpoint") == b"0\n2\na 0 9\nb-with-dash 12 3\n"
        assert fs.read_bytes(f"{DATA}/recovery-point-offset-checkpoint") == b"0\n1\na 0 15\n"
        assert fs.read_bytes(f"{DATA}/log-start-offset-checkpoint") == b"0\n1\na 0 4\n"
        assert fs.read_bytes(f"{DATA}/meta.properties") == b"#\ncluster.id=cluster\nnode.id=1\nversion=1\n"
        assert fs.read_bytes(f"{DATA}/a-0/partition.metadata") == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"

    def test_a_partition_without_a_leader_keeps_its_high_watermark(self) -> None:
        """KAFKA-1647. Simulator bug drop-leaderless-hw."""
        fs, manager = two_logs()
        manager.checkpoint_high_watermarks({A: 9, B: 3})
        manager.close()
        again = open_manager(fs)
        again.checkpoint_high_watermarks({B: 5, TopicPartition("gone", 0): 7})
        again.close()
        assert open_manager(fs).high_watermarks == {A: 9, B: 5}

    def test_an_older_write_never_replaces_a_newer_one(self) -> None:
        """A thread may run its write after the loop has written a lower recovery point."""
        fs, manager = two_logs()
        manager.logs[A].flush()
        (slow,) = manager.prepare_recovery_points()
        manager.logs[A].truncate_to(6)
        slow()
        assert fs.read_bytes(f"{DATA}/recovery-point-offset-checkpoint") == b"0\n1\na 0 6\n"
        fs.power_loss()
        assert open_manager(fs).logs[A].log_end_offset == 6

    def test_the_log_start_survives_a_restart(self) -> None:
        fs, manager = two_logs()
        manager.logs[A].increment_log_start_offset(4)
        manager.close()
        assert open_manager(fs).logs[A].log_start_offset == 4

    def test_nothing_is_written_when_the_recovery_point_on_disk_is_low_anyway(self) -> None:
        fs, manager = two_logs()
        manager.logs[A].truncate_to(6)
        assert not fs.exists(f"{DATA}/recovery-point-offset-checkpoint")
