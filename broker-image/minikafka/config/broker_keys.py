"""Every broker setting MiniKafka honours; names, types, defaults and ranges are Kafka 4.3's unless ``note`` says so.

Grouped in classes only so that the generated page has headings; ``BrokerConfig`` inherits them all.
"""

from minikafka.config.keys import (
    INT_MAX,
    LONG_MAX,
    Update,
    boolean,
    integer,
    long,
    one_of,
    optional_integer,
    optional_text,
    short,
    text,
    words,
)
from minikafka.config.listeners import Endpoint, listener_list, per_address, protocol_map
from minikafka.config.security_keys import Security
from minikafka.log.unflushed_volume import usable_bytes
from minikafka.telemetry.event_file import BYTES_DEFAULT as EVENTS_BYTES_DEFAULT
from minikafka.telemetry.event_file import BYTES_MIN as EVENTS_BYTES_MIN

CLUSTER_WIDE = Update.CLUSTER_WIDE

UNFLUSHED_VOLUME_BYTES = 256 << 20
"""What the operator gives a broker unless somebody says otherwise; everywhere else the broker keeps to the same."""


class IdentityAndNetwork:
    """Who the broker is, and where it listens"""

    node_id = integer(
        None, 0, doc="Number of this broker, unique in the cluster.", required=True, note="alias: broker.id"
    )
    cluster_id = optional_text(
        doc="Cluster this broker belongs to; a data directory of another cluster is refused. Without it the store's "
        "cluster id is taken (and made on the very first start).",
        allowed="1 to 64 of A-Z a-z 0-9 . _ -",
        pattern=r"[A-Za-z0-9._-]{1,64}",
        note="not in Kafka's server.properties: Kafka writes it when formatting",
    )
    broker_rack = optional_text(doc="Rack of this broker; replicas of a partition are spread over racks (KIP-36).")
    listeners = listener_list(
        (Endpoint("PLAINTEXT", "", 9092),),
        doc="Where the broker listens. An empty host means every interface, port 0 lets the system choose.",
    )
    advertised_listeners = listener_list(
        None,
        doc="What clients and other brokers are told to connect to. Without it: the listeners, an empty host "
        "replaced by the machine's name.",
    )
    listener_security_protocol_map = protocol_map(doc="Protocol of each listener name.")
    inter_broker_listener_name = optional_text(
        doc="Listener that brokers use among themselves. Without it: that of security.inter.broker.protocol, or the only one. "
        "Registrations, heartbeats, ISR changes and fetches of followers are served on it alone, so it should be one that "
        "clients cannot reach, or at which they cannot authenticate.",
        allowed="name of an advertised listener",
        pattern=r"[A-Za-z0-9_.-]+",
    )
    max_connections = integer(
        INT_MAX,
        0,
        doc="Most connections at once; more are closed at once. Other brokers always get one.",
        update=CLUSTER_WIDE,
    )
    max_connections_per_ip = integer(
        INT_MAX, 0, doc="Most connections at once from one address; more are closed at once.", update=CLUSTER_WIDE
    )
    max_connections_per_ip_overrides = per_address(
        doc="The same for some addresses, in place of max.connections.per.ip. Addresses only, no names of hosts.",
        update=CLUSTER_WIDE,
    )
    max_connection_creation_rate = integer(
        INT_MAX,
        0,
        doc="Most new connections a second, over the window of quotas; more are closed at once. Other brokers always get one.",
        update=CLUSTER_WIDE,
    )
    connections_max_idle_ms = long(
        600_000, -1, doc="A connection without a request for this long is closed; -1: never."
    )
    socket_request_max_bytes = integer(
        104_857_600, 1, doc="Largest request in bytes; a larger one closes its connection."
    )
    queued_max_request_bytes = long(
        -1,
        -1,
        doc="Bytes of requests that are not handled yet, from which on no more are read; -1: no limit. Requests of up to 256 KiB "
        "count when they wait for an earlier one of their connection, larger ones from when they are announced.",
    )
    socket_listen_backlog_size = integer(50, 1, doc="Connections the system may hold before they are accepted.")
    socket_send_buffer_bytes = integer(
        102_400, -1, doc="SO_SNDBUF of accepted connections; -1: the system's default.", unused=True
    )
    socket_receive_buffer_bytes = integer(
        102_400, -1, doc="SO_RCVBUF of accepted connections; -1: the system's default.", unused=True
    )
    request_timeout_ms = integer(
        30_000,
        1,
        doc="How long this broker waits for the answer to a request of its own before it closes the connection. For "
        "heartbeats and ISR changes at most broker.session.timeout.ms, for what it forwards to the controller at most 5 s.",
    )
    message_max_bytes = integer(1_048_588, 0, doc="Largest record batch accepted, in bytes.", update=CLUSTER_WIDE)
    fetch_max_bytes = integer(57_671_680, 1024, doc="Most bytes in one fetch response, whatever is asked for.")
    max_incremental_fetch_session_cache_slots = integer(
        1_000, 0, doc="Incremental fetch sessions kept (KIP-227).", unused=True
    )


class TopicsAndController:
    """Topics, elections and the controller"""

    auto_create_topics_enable = boolean(
        True, doc="Create a topic when a client asks for its metadata or produces to it."
    )
    delete_topic_enable = boolean(True, doc="Whether DeleteTopics does anything; otherwise TOPIC_DELETION_DISABLED.")
    num_partitions = integer(1, 1, doc="Partitions of a topic created without a number.")
    default_replication_factor = integer(1, 1, doc="Replicas of a topic created without a number.")
    min_insync_replicas = integer(
        1,
        1,
        doc="With acks=all, a write needs this many in-sync replicas, else NOT_ENOUGH_REPLICAS. Below it the high "
        "watermark stands still (KIP-966). More than the replication factor counts as the replication factor.",
        update=CLUSTER_WIDE,
    )
    unclean_leader_election_enable = boolean(
        False,
        doc="Whether a replica outside the ISR may lead when no in-sync one is alive. It loses acknowledged records.",
        update=CLUSTER_WIDE,
    )
    unclean_leader_election_interval_ms = long(
        300_000, 1, doc="How often partitions without a leader are looked at for an unclean election.", unused=True
    )
    auto_leader_rebalance_enable = boolean(True, doc="Give leadership back to preferred replicas from time to time.")
    leader_imbalance_check_interval_seconds = long(300, 1, doc="How often, in seconds, preferred leaders are restored.")
    controlled_shutdown_enable = boolean(True, doc="Move leaders away before a broker that was asked to stop does so.")
    broker_session_timeout_ms = integer(
        9_000,
        1,
        doc="A broker the controller has not heard from for this long is fenced: its partitions get new leaders.",
    )
    broker_heartbeat_interval_ms = integer(
        2_000, 1, doc="How often a broker tells the controller that it lives; at most half the session timeout."
    )


class Replication:
    """Replication"""

    num_replica_fetchers = integer(
        1, 1, doc="Fetch connections to each broker that is a source.", update=CLUSTER_WIDE, unused=True
    )
    replica_lag_time_max_ms = long(
        30_000, 1, doc="A follower not caught up for this long leaves the ISR; checked every half of it."
    )
    replica_fetch_wait_max_ms = integer(
        500, 0, doc="How long a follower's fetch may wait for data; at most replica.lag.time.max.ms."
    )
    replica_fetch_min_bytes = integer(1, 0, doc="Bytes that answer a waiting follower's fetch early.")
    replica_fetch_max_bytes = integer(1_048_576, 0, doc="Bytes a follower asks for per partition and fetch.")
    replica_fetch_response_max_bytes = integer(10_485_760, 0, doc="Bytes a follower asks for per fetch.")
    replica_fetch_backoff_ms = integer(1_000, 0, doc="How long a follower waits after a failed fetch of a partition.")
    replica_socket_timeout_ms = integer(
        30_000,
        1,
        doc="How long a follower waits for the answer to a fetch before it closes the connection and connects anew; at "
        "least replica.fetch.wait.max.ms.",
    )
    replica_socket_receive_buffer_bytes = integer(
        65_536, -1, doc="SO_RCVBUF of fetch connections; -1: the system's default.", unused=True
    )
    replica_high_watermark_checkpoint_interval_ms = long(
        5_000, 1, doc="How often high watermarks are written to replication-offset-checkpoint."
    )


class Log:
    """The log on disk"""

    log_dir = words(("/tmp/kafka-logs",), None, doc="Data directory when log.dirs is not set.", allowed="a directory")
    log_dirs = words(None, None, doc="Data directories.", allowed="comma-separated list of directories")
    log_segment_bytes = integer(
        1_073_741_824,
        1024,
        doc="A segment is closed before it grows beyond this.",
        update=CLUSTER_WIDE,
        note="Kafka 4 wants at least 1048576; small segments are useful in a lab",
    )
    log_roll_ms = long(None, 1, doc="A segment is closed at this age; without it log.roll.hours.", update=CLUSTER_WIDE)
    log_roll_hours = integer(168, 1, doc="A segment is closed at this age.")
    log_index_size_max_bytes = integer(
        10_485_760, 4, doc="A segment is closed when an index reaches this.", update=CLUSTER_WIDE
    )
    log_index_interval_bytes = integer(4_096, 0, doc="Bytes of records between two index entries.", update=CLUSTER_WIDE)
    log_retention_ms = long(
        None,
        -1,
        doc="Closed segments older than this are deleted; -1: never. Without it log.retention.minutes.",
        update=CLUSTER_WIDE,
    )
    log_retention_minutes = optional_integer(-1, doc="As log.retention.ms. Without it log.retention.hours.")
    log_retention_hours = integer(168, -1, doc="As log.retention.ms.")
    log_retention_bytes = long(
        -1,
        -1,
        doc="Oldest segments are deleted while the partition is larger than this; -1: never.",
        update=CLUSTER_WIDE,
    )
    log_retention_check_interval_ms = long(300_000, 1, doc="How often retention is applied.")
    log_segment_delete_delay_ms = long(
        60_000, 0, doc="A deleted file stays this long under its .deleted name.", update=CLUSTER_WIDE
    )
    log_cleanup_policy = words(
        ("delete",), ("delete", "compact"), doc="What happens to old segments.", update=CLUSTER_WIDE
    )
    log_flush_interval_messages = long(
        LONG_MAX, 1, doc="Records after which a partition is flushed to disk.", update=CLUSTER_WIDE
    )
    log_flush_interval_ms = long(
        None,
        0,
        doc="Age after which unflushed records are flushed; without it log.flush.scheduler.interval.ms.",
        update=CLUSTER_WIDE,
    )
    log_flush_scheduler_interval_ms = long(LONG_MAX, 1, doc="How often it is checked whether a flush is due.")
    log_flush_offset_checkpoint_interval_ms = integer(
        60_000, 0, doc="How often flushed-up-to offsets are written to recovery-point-offset-checkpoint."
    )
    log_flush_start_offset_checkpoint_interval_ms = integer(
        60_000, 0, doc="How often log start offsets are written to log-start-offset-checkpoint.", unused=True
    )
    log_message_timestamp_type = one_of(
        "CreateTime", ("CreateTime", "LogAppendTime"), doc="Whose clock a record's timestamp is.", update=CLUSTER_WIDE
    )
    log_message_timestamp_before_max_ms = long(
        LONG_MAX, 0, doc="A record this much older than the broker's clock is refused.", update=CLUSTER_WIDE
    )
    log_message_timestamp_after_max_ms = long(
        3_600_000, 0, doc="A record this much newer than the broker's clock is refused.", update=CLUSTER_WIDE
    )
    compression_type = one_of(
        "producer",
        ("producer",),
        doc="Batches are kept as the producer compressed them.",
        update=CLUSTER_WIDE,
        note="Kafka's other values (uncompressed, gzip, snappy, lz4, zstd) would make the broker recompress; refused",
    )


class GroupsAndTransactions:
    """Consumer groups, offsets, producers and transactions"""

    group_initial_rebalance_delay_ms = integer(
        3_000, 0, doc="How long the first rebalance of an empty group waits for more members."
    )
    group_min_session_timeout_ms = integer(6_000, 0, doc="Smallest session timeout a member may ask for.")
    group_max_session_timeout_ms = integer(1_800_000, 1, doc="Largest session timeout a member may ask for.")
    group_max_size = integer(INT_MAX, 1, doc="Most members of a group.")
    offset_metadata_max_bytes = integer(4_096, 0, doc="Largest metadata text of a committed offset.")
    offsets_topic_num_partitions = integer(50, 1, doc="Partitions of __consumer_offsets; not to be changed later.")
    offsets_topic_replication_factor = short(3, 1, doc="Replicas of __consumer_offsets.")
    offsets_topic_segment_bytes = integer(104_857_600, 1024, doc="segment.bytes of __consumer_offsets.")
    offsets_topic_compression_codec = integer(
        0, 0, 0, doc="Compression of committed offsets: 0, none.", note="Kafka also takes 1 to 4", unused=True
    )
    offsets_load_buffer_size = integer(
        5_242_880, 1, doc="Bytes read at a time when a group partition is loaded.", unused=True
    )
    offsets_commit_timeout_ms = integer(5_000, 1, doc="How long a commit waits for its replicas.")
    offsets_retention_minutes = integer(10_080, 1, doc="Offsets of a group without members are kept this long.")
    offsets_retention_check_interval_ms = long(600_000, 1, doc="How often expired offsets are looked for.")
    producer_id_expiration_ms = integer(
        86_400_000, 1, doc="An idle producer's sequence state is forgotten after this.", update=CLUSTER_WIDE
    )
    producer_id_expiration_check_interval_ms = integer(
        600_000, 1, doc="How often idle producers are looked for.", unused=True
    )
    transaction_max_timeout_ms = integer(
        900_000, 1, doc="Largest transaction timeout a producer may ask for.", unused=True
    )
    transactional_id_expiration_ms = integer(
        604_800_000, 1, doc="An idle transactional id is forgotten after this.", unused=True
    )
    transaction_state_log_num_partitions = integer(50, 1, doc="Partitions of __transaction_state.", unused=True)
    transaction_state_log_replication_factor = short(3, 1, doc="Replicas of __transaction_state.", unused=True)
    transaction_state_log_min_isr = integer(2, 1, doc="min.insync.replicas of __transaction_state.", unused=True)
    transaction_state_log_segment_bytes = integer(
        104_857_600, 1024, doc="segment.bytes of __transaction_state.", unused=True
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        10_000, 1, doc="How often timed-out transactions are aborted.", unused=True
    )


class Quotas:
    """Quotas"""

    quota_window_num = integer(11, 1, doc="Samples a client's rate is measured over.")
    quota_window_size_seconds = integer(1, 1, doc="Length of one sample in seconds.")
    controller_quota_window_num = integer(
        11, 1, doc="Samples for which a client may save up changes of the cluster (controller_mutation_rate, KIP-599)."
    )
    controller_quota_window_size_seconds = integer(1, 1, doc="Length of one of these samples in seconds.")


class MiniKafkaOwn:
    """MiniKafka's own"""

    minikafka_metadata_store = text(
        None,
        doc="Where topics, partition states and the controller's lease are kept: a SQLite file shared by the brokers "
        "of one machine, the Kubernetes API, or this process alone (for tests of one broker).",
        required=True,
        allowed="sqlite:PATH, kubernetes, memory",
        pattern=r"sqlite:.+|kubernetes|memory",
    )
    minikafka_kubernetes_cluster = optional_text(
        doc="With minikafka.metadata.store=kubernetes: the MiniKafkaCluster that this broker belongs to.",
        allowed="the name of a MiniKafkaCluster",
        pattern=r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?",
    )
    minikafka_kubernetes_namespace = optional_text(
        doc="The namespace of that cluster. Without it: the pod's own, or that of the current context in KUBECONFIG.",
        allowed="the name of a namespace",
        pattern=r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
    )
    minikafka_unflushed_dir = optional_text(
        doc="Directory for the part of each log that is not flushed yet, so that losing it is losing exactly what a "
        "power loss takes. Without it logs are plain files.",
        allowed="a directory outside log.dirs",
    )
    minikafka_unflushed_max_bytes = long(
        usable_bytes(UNFLUSHED_VOLUME_BYTES),
        1,
        doc="Most bytes in minikafka.unflushed.dir, of all logs together; less where its file system has no room for them. From "
        "half of it on logs are flushed, whatever flush.messages and flush.ms say, and appends wait where there is no room. "
        "A producer's batch may have three quarters of it.",
        note="at least twice message.max.bytes",
    )
    minikafka_test_faults_path = optional_text(
        doc="For tests and chaos experiments: a file by which faults of the disk and of the clock are injected while the broker "
        "runs. Without it there are none.",
        allowed="a file that exists",
    )
    minikafka_test_hooks = boolean(
        False,
        doc="For tests of clients: whether errors and delays may be injected into the broker's answers, by `/hooks` beside its "
        "metrics, and every acknowledgement is told as an event. Otherwise there is no `/hooks`.",
    )
    minikafka_truncation_mode = one_of(
        "leader_epoch",
        ("leader_epoch", "high_watermark"),
        doc="How a follower truncates its log: by leader epochs (KIP-101), or by its high watermark as before Kafka 0.11, "
        "which loses and diverges, to show why.",
    )
    minikafka_unclean_shutdown_policy = one_of(
        "fence",
        ("fence", "trust_isr"),
        doc="A broker back from an unclean shutdown leaves every ISR first (KIP-966), or keeps its seat as before.",
    )
    minikafka_authentication_timeout_ms = integer(
        30_000,
        1,
        doc="How long a client may take for the handshake of TLS and to log in; then its connection is closed.",
    )
    minikafka_slow_reader_timeout_ms = integer(
        300_000,
        1,
        doc="A connection of which the client takes nothing of an answer for so long is closed. Consumers that are busy may read "
        "nothing meanwhile, as long as their max.poll.interval.ms allows.",
    )
    minikafka_max_broker_partitions = integer(
        0,
        0,
        doc="Most replicas that a broker may be given (KIP-578); what would be more is refused with POLICY_VIOLATION. "
        "0: a quarter of the files that the controller may have open.",
    )
    minikafka_metrics_port = optional_integer(
        0, 65_535, doc="Port of /metrics, /healthz and /readyz; 0 lets the system choose. Without it: none."
    )
    minikafka_metrics_host = text("127.0.0.1", doc="Address that port is opened on.", pattern=r"[A-Za-z0-9.:_%-]+")
    minikafka_metrics_tokens_path = optional_text(
        doc="File of tokens, one a line: who asks for anything but /healthz and /readyz has to show one of them "
        "(Authorization: Bearer TOKEN). It is looked at with each request, so a token is replaced by adding a second one. "
        "Without it everybody is answered. Commands send the first of the file that theirs names.",
        allowed="a file path",
    )
    minikafka_metrics_ssl_keystore_location = optional_text(
        doc="PEM file with a private key and its certificates, by which that port has TLS, with the ssl.enabled.protocols, "
        "ssl.cipher.suites and ssl.key.password of listeners. It is looked at whenever a connection begins. Without it: no TLS.",
        allowed="a file path",
    )
    minikafka_metrics_group_series_max = integer(
        10_000,
        0,
        doc="How many series /metrics has of consumer groups at most: one for the members of each, and one for each committed "
        "offset. Clients make groups at will, and the event loop serves nobody while it gathers them. A name of more than "
        "256 characters counts as often as it has so many. What is left out: minikafka_group_series_left_out.",
    )
    minikafka_ready_in_sync_timeout_ms = long(
        0,
        0,
        doc="After its start a broker is not ready (/readyz) before its replicas are in sync, or this long at most; 0: at "
        "once. Supervisors that take brokers away one at a time need it; the operator sets ten minutes.",
    )
    minikafka_events_path = optional_text(
        doc="File the broker appends its events to, one JSON object a line.", allowed="a file path"
    )
    minikafka_events_max_bytes = long(
        EVENTS_BYTES_DEFAULT,
        EVENTS_BYTES_MIN,
        doc="Most bytes of that file and the one before it: at half of it NAME.jsonl becomes NAME.1.jsonl, in place of the one "
        "that had that name, and a new one begins. The oldest events are lost, and an event says how many bytes were.",
    )
    minikafka_events_stdout = boolean(
        False,
        doc="Whether events go to standard output too, where whoever collects the logs of containers finds them. A broker never "
        "waits for who reads it: beyond 8 MiB that are not taken, events count in minikafka_events_dropped_total.",
    )


class BrokerKeys(
    MiniKafkaOwn, Quotas, GroupsAndTransactions, Log, Replication, TopicsAndController, Security, IdentityAndNetwork
):
    """All of them."""


SECTIONS: tuple[type, ...] = (
    IdentityAndNetwork,
    Security,
    TopicsAndController,
    Replication,
    Log,
    GroupsAndTransactions,
    Quotas,
    MiniKafkaOwn,
)
ALIASES = {"broker.id": "node.id"}
