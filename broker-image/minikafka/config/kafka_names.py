"""Names of settings Apache Kafka has, to tell "not supported" from "unknown".

Taken once from Kafka 4.3's own configuration definitions (``KafkaConfig.configDef()``, ``LogConfig``), plus those of
ZooKeeper's time that old files still carry. Families are given by prefix. Imported only when a key is refused.
"""

_FAMILIES = (
    "controller.listener.",
    "controller.performance.",
    "controller.quorum.",
    "controller.socket.",
    "delegation.token.",
    "group.consumer.",
    "group.coordinator.",
    "group.share.",
    "group.streams.",
    "kafka.metrics.",
    "metadata.log.",
    "metadata.max.",
    "metrics.",
    "remote.",
    "sasl.kerberos.",
    "sasl.login.",
    "sasl.oauthbearer.assertion.",
    "sasl.oauthbearer.client.",
    "sasl.oauthbearer.header.",
    "sasl.oauthbearer.jwt.",
    "share.coordinator.",
    "zookeeper.",
    "log.cleaner.",
)

_BROKER = """
    add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms advertised.host.name
    advertised.port alter.config.policy.class.name alter.log.dirs.replication.quota.window.num
    alter.log.dirs.replication.quota.window.size.seconds background.threads
    broker.id.generation.enable client.quota.callback.class compression.gzip.level compression.lz4.level
    compression.zstd.level config.providers control.plane.listener.name cordoned.log.dirs create.topic.policy.class.name
    delete.records.purgatory.purge.interval.requests early.start.listeners eligible.leader.replicas.enable
    fetch.purgatory.purge.interval.requests follower.fetch.last.tiered.offset.enable
    follower.replication.throttled.rate host.name initial.broker.registration.timeout.ms
    inter.broker.protocol.version internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
    internal.metadata.max.batch.size.in.bytes leader.imbalance.per.broker.percentage
    leader.replication.throttled.rate log.dir.failure.timeout.ms log.initial.task.delay.ms
    log.local.retention.bytes log.local.retention.ms log.message.downconversion.enable
    log.message.format.version log.message.timestamp.difference.max.ms log.preallocate log.roll.jitter.hours
    log.roll.jitter.ms
    max.request.partition.size.limit metric.reporters num.io.threads num.network.threads
    num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads password.encoder.secret port
    principal.builder.class process.roles producer.purgatory.purge.interval.requests
    queued.max.requests quota.consumer.default quota.producer.default
    replica.alter.log.dirs.io.max.bytes.per.second replica.selector.class replication.quota.window.num
    replication.quota.window.size.seconds reserved.broker.max.id
    security.providers server.max.startup.time.ms share.fetch.purgatory.purge.interval.requests
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms telemetry.max.bytes
    transaction.partition.verification.enable transaction.remove.expired.transaction.cleanup.interval.ms
    transaction.state.log.load.buffer.size transaction.two.phase.commit.enable unstable.api.versions.enable
    unstable.feature.versions.enable
    sasl.client.callback.handler.class sasl.mechanism.controller.protocol sasl.oauthbearer.scope
    ssl.allow.dn.changes ssl.allow.san.changes ssl.engine.factory.class ssl.keymanager.algorithm ssl.keystore.password
    ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.password
"""

_TOPIC = """
    compression.gzip.level compression.lz4.level compression.zstd.level delete.retention.ms
    follower.replication.throttled.replicas internal.segment.bytes leader.replication.throttled.replicas
    local.retention.bytes local.retention.ms max.compaction.lag.ms message.downconversion.enable
    message.format.version message.timestamp.difference.max.ms min.cleanable.dirty.ratio min.compaction.lag.ms
    preallocate remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable segment.jitter.ms
"""


def is_kafka_broker_key(name: str) -> bool:
    """Return whether ``server.properties`` of some Kafka may hold this key; ``listener.name.*`` overrides included."""
    return name in _BROKER.split() or name.startswith((*_FAMILIES, "listener.name."))


def is_kafka_topic_key(name: str) -> bool:
    """Return whether Kafka knows this topic setting."""
    return name in _TOPIC.split()


def is_secret(name: str) -> bool:
    """Return whether the value must not be shown: Kafka's PASSWORD keys and anything that is named like one."""
    return name.endswith((".password", ".passphrase", ".secret", ".secret.key", "jaas.config", "keystore.key"))
