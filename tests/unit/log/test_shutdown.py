"""What a stop leaves, and what the next start believes of it."""

from __future__ import annotations

import errno

import pytest
from minikafka.log.errors import LogDirFailure
from minikafka.log.filesystem import MemoryFileSystem

from tests.unit.log.build import contents
from tests.unit.log.managed import DATA, ID_A, ID_B, A, B, fill, open_manager, two_logs


class TestShutdown:
    def stopped(self) -> tuple[MemoryFileSystem, str]:
        """A clean shutdown under broker epoch 7, and the path of the data of a's only segment."""
        fs, manager = two_logs()
        manager.close(broker_epoch=7)
        fs.kill()
        return fs, f"{DATA}/{A}/{0:020}.log"

    def test_a_marker_beside_a_log_that_is_short_is_not_clean(self) -> None:
        """Audit t9, KIP-966: the broker would be trusted, and might lead, with half of what it acknowledged."""
        fs, path = self.stopped()
        handle = fs.open_append(path)
        handle.truncate(handle.size // 2 + 10)
        handle.fsync()
        manager = open_manager(fs)
        assert manager.logs[A].recovery.lost and not manager.logs[B].recovery.lost
        assert (manager.clean, manager.previous_broker_epoch) == (False, -1)

    def test_a_marker_beside_a_log_that_ends_early_at_a_whole_batch_is_not_clean(self) -> None:
        fs, path = self.stopped()
        handle = fs.open_append(path)
        handle.truncate(handle.size // 5 * 4)
        handle.fsync()
        manager = open_manager(fs)
        assert manager.logs[A].log_end_offset == 12
        assert (manager.clean, manager.previous_broker_epoch) == (False, -1)

    def test_a_marker_beside_a_log_that_is_gone_is_not_clean(self) -> None:
        fs, _ = self.stopped()
        fs.rmtree(f"{DATA}/{A}")
        manager = open_manager(fs)
        assert (manager.clean, manager.previous_broker_epoch) == (False, -1)

    def test_topics_deleted_before_a_clean_shutdown_are_not_missed(self) -> None:
        fs, manager = two_logs()
        manager.logs[A].flush()
        manager.checkpoint_recovery_points()
        manager.delete(A)
        manager.close(broker_epoch=7)
        assert open_manager(fs).previous_broker_epoch == 7

    def test_a_clean_one_spares_recovery_and_tells_the_broker_epoch(self) -> None:
        fs, manager = two_logs()
        wanted = contents(manager.logs[A])
        manager.checkpoint_high_watermarks({A: 9, B: 3})
        manager.close(broker_epoch=77)
        assert fs.read_bytes(f"{DATA}/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":77}'
        fs.power_loss()
        again = open_manager(fs)
        assert again.clean
        assert again.previous_broker_epoch == 77
        assert again.high_watermarks == {A: 9, B: 3}
        assert again.topic_ids == {A: ID_A, B: ID_B}
        assert contents(again.logs[A]) == wanted
        assert again.logs[A].recovery.segments_recovered == 0

    def test_one_directory_without_a_marker_spoils_all(self) -> None:
        """KIP-966: the broker may have lost the tails of the logs in it, so it must not say that it stopped cleanly."""
        fs = MemoryFileSystem()
        dirs = ("/one", "/two")
        manager = open_manager(fs, dirs=dirs)
        fill(manager.create(A, ID_A), 2)
        fill(manager.create(B, ID_B), 2)
        manager.close(broker_epoch=77)
        again = open_manager(fs, dirs=dirs)
        assert (again.clean, again.previous_broker_epoch) == (True, 77)
        again.close(broker_epoch=78)
        fs.remove("/two/.kafka_cleanshutdown")
        found = open_manager(fs, dirs=dirs)
        assert (found.clean, found.previous_broker_epoch) == (False, -1)
        assert {tp: log.recovery.clean for tp, log in found.logs.items()} == {A: True, B: False}

    def test_the_marker_is_gone_before_the_logs_are_loaded(self) -> None:
        """KAFKA-10471: a crash while loading must not look clean the next time. Simulator bug clean-marker-stays."""
        fs, manager = two_logs()
        manager.close(broker_epoch=5)

        def hook(operation: str, path: str) -> None:
            if operation == "open":
                raise OSError(errno.EIO, "Input/output error", path)

        fs.fault_hook = hook
        with pytest.raises(LogDirFailure):
            open_manager(fs)
        fs.fault_hook = None
        fs.power_loss()
        again = open_manager(fs)
        assert not again.clean
        assert again.previous_broker_epoch == -1
        assert again.logs[A].log_end_offset == 15

    def test_after_a_crash_every_log_is_recovered_from_its_recovery_point(self) -> None:
        fs, manager = two_logs()
        manager.logs[A].flush()
        manager.checkpoint_recovery_points()
        fill(manager.logs[A], 1)
        fs.power_loss()
        again = open_manager(fs)
        assert not again.clean
        assert again.logs[A].recovery.recovery_point == 15
        assert again.logs[A].log_end_offset == 15
        assert again.logs[B].log_end_offset == 0

    def test_closing_as_if_the_process_had_died(self) -> None:
        fs, manager = two_logs()
        manager.close(clean=False)
        assert not fs.exists(f"{DATA}/.kafka_cleanshutdown")
        assert open_manager(fs).logs[A].log_end_offset == 15

    @pytest.mark.parametrize("failing", ["fsync", "write_atomic"])
    def test_a_log_that_cannot_be_flushed_leaves_no_marker(self, failing: str) -> None:
        fs, manager = two_logs()

        def hook(operation: str, path: str) -> None:
            if operation == failing and "a-0" in path:
                raise OSError(errno.EIO, "Input/output error", path)

        fs.fault_hook = hook
        with pytest.raises(LogDirFailure):
            manager.close(broker_epoch=5)
        fs.fault_hook = None
        assert not fs.exists(f"{DATA}/.kafka_cleanshutdown")
        assert not open_manager(fs).clean

    def test_a_log_that_failed_before_leaves_no_marker(self) -> None:
        fs, manager = two_logs()
        manager.logs[A].go_offline("left half done", OSError(errno.EIO, "Input/output error"))
        with pytest.raises(LogDirFailure):
            manager.close()
        assert not open_manager(fs).clean

    def test_a_marker_that_cannot_be_written_is_told(self) -> None:
        fs, manager = two_logs()

        def hook(operation: str, path: str) -> None:
            if operation == "write_atomic" and path.endswith("cleanshutdown"):
                raise OSError(errno.ENOSPC, "No space left on device", path)

        fs.fault_hook = hook
        with pytest.raises(LogDirFailure, match="marker"):
            manager.close()
        fs.fault_hook = None
        assert not open_manager(fs).clean

    @pytest.mark.parametrize("text", [b"", b'{"brokerEpoch":Infinity}', b'{"brokerEpoch":1e999}', b"[" * 5000])
    def test_a_marker_that_tells_no_epoch_is_clean_without_one(self, text: bytes) -> None:
        """One of an older Kafka is empty."""
        fs, manager = two_logs()
        manager.close()
        fs.write_atomic(f"{DATA}/.kafka_cleanshutdown", text)
        again = open_manager(fs)
        assert again.clean
        assert again.previous_broker_epoch == -1
