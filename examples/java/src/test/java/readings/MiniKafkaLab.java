package readings;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Three brokers for tests, and the verbs that break them: copy this file into your project. They are a cluster that
 * {@code minikafka up} runs until its standard input ends: it cannot outlive the tests.
 */
public final class MiniKafkaLab implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<String> UP = List.of(
            "up", "--while-stdin", "--json", "--base-port", "0", "--control", "0", "--timeout", "120",
            "--config", "offsets.topic.num.partitions=4", "--config", "auto.create.topics.enable=false");

    private final HttpClient client = HttpClient.newHttpClient();
    private final Process process;
    private final BufferedReader told;
    private final JsonNode cluster;

    /** Returns when all brokers are ready. Options are further ones of {@code minikafka up}. */
    public MiniKafkaLab(String... options) {
        String program = System.getenv().getOrDefault("MINIKAFKA", "minikafka");
        List<String> command = new ArrayList<>(List.of(program));
        command.addAll(UP);
        command.addAll(List.of(options));
        try {
            process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            told = process.inputReader();
            String line = told.readLine();
            if (line == null) {
                throw new IllegalStateException(program + " up has ended before its brokers were ready");
            }
            cluster = JSON.readTree(line);
        } catch (IOException error) {
            String found = "pip install minikafka, or set MINIKAFKA to where it is";
            throw new IllegalStateException("cannot start " + program + " (" + found + ")", error);
        }
    }

    /** The addresses of all brokers. */
    public String bootstrap() {
        return cluster.get("bootstrap").textValue();
    }

    /** Has a verb carried out, with fields as http://.../v1/openapi.json describes them; its result. */
    public JsonNode verb(String name, Map<String, ?> fields) {
        JsonNode control = cluster.get("control");
        try {
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(control.get("url").textValue() + "/" + name))
                    .header("Content-Type", "application/json")
                    .POST(HttpRequest.BodyPublishers.ofString(JSON.writeValueAsString(fields)));
            if (!control.get("token").isNull()) {
                request.header("Authorization", "Bearer " + control.get("token").textValue());
            }
            JsonNode answer = JSON.readTree(client.send(request.build(), BodyHandlers.ofString()).body());
            if (answer.has("error")) {
                throw new IllegalStateException(name + ": " + answer.get("error").textValue());
            }
            return answer.get("result");
        } catch (IOException error) {
            throw new IllegalStateException(name + ": " + error, error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(name, error);
        }
    }

    @Override
    public void close() {
        try {
            process.outputWriter().close();
            process.waitFor();
            told.close();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
