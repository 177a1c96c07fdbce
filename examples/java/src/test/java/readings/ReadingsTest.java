package readings;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class ReadingsTest {
    private static MiniKafkaLab lab;

    @BeforeAll
    static void start() {
        lab = new MiniKafkaLab();
    }

    @AfterAll
    static void end() {
        if (lab != null) {
            lab.close();
        }
    }

    private static Readings service(String topic) {
        return "as-it-was".equals(System.getenv("EXAMPLE"))
                ? Readings.asItWas(lab.bootstrap(), topic)
                : Readings.mended(lab.bootstrap(), topic);
    }

    @Test
    void readingsKeepTheirOrderWhenARequestFails() {
        String topic = lab.verb("create_topic", Map.of()).textValue();
        List<String> taken = IntStream.rangeClosed(0, 40).mapToObj(Integer::toString).toList();
        try (Readings readings = service(topic)) {
            readings.send(taken.subList(0, 1));
            lab.verb("delay", Map.of("api", "Produce", "millis", 100));
            lab.verb(
                    "inject_error",
                    Map.of("api", "Produce", "code", "NOT_ENOUGH_REPLICAS", "topic", topic, "count", 1, "after", 1));
            readings.send(taken.subList(1, taken.size()));
        }
        lab.verb("heal", Map.of());

        List<String> kept = new ArrayList<>();
        lab.verb("records", Map.of("topic", topic)).forEach(record -> kept.add(record.get("value").textValue()));
        assertEquals(taken, kept, "in another order");
    }
}
