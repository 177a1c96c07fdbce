package readings;

import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends the readings of a meter, each at once, in the order in which they were taken. */
public final class Readings implements AutoCloseable {
    private final Producer<String, String> producer;
    private final String topic;

    private Readings(String bootstrap, String topic, boolean idempotence) {
        this.topic = topic;
        this.producer = new KafkaProducer<>(
                Map.of(
                        ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
                        ProducerConfig.BATCH_SIZE_CONFIG, 0,
                        ProducerConfig.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION, 5,
                        ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, idempotence),
                new StringSerializer(),
                new StringSerializer());
    }

    /** Several requests are under way, and what failed is sent again: after those that came later. */
    public static Readings asItWas(String bootstrap, String topic) {
        return new Readings(bootstrap, topic, false);
    }

    /** Numbers its batches, so that the broker takes them in order only. */
    public static Readings mended(String bootstrap, String topic) {
        return new Readings(bootstrap, topic, true);
    }

    /** Returns when all are sent. */
    public void send(List<String> readings) {
        for (String reading : readings) {
            producer.send(new ProducerRecord<>(topic, 0, null, reading));
        }
        producer.flush();
    }

    @Override
    public void close() {
        producer.close();
    }
}
