// A warehouse: the stock side of checkouts, outside of Holdfast, on Kafka.
//
// It keeps nothing but what the topics tell it. Whenever it starts it reads its own answers in `outcomes`, then `stock` from
// the beginning: so it knows which message it has answered how; one that comes again, also after a crash, gets the same answer
// again and takes nothing twice. A real one would keep one row per (order_id, tr_num, rollback) in its database, with its
// outcome.
//
// ITEM=STOCK is what there was before the first message of the topic: it is for a topic that no node has ever served. Where nodes
// have (shop.stock was not always "kafka"), a program begins at the end of `stock` and keeps its own rows from there on.
//
//   java -cp 'KAFKA/libs/*' Warehouse.java HOST:PORT PREFIX ITEM=STOCK [ITEM=STOCK …]

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Warehouse {
    static final ObjectMapper JSON = new ObjectMapper();
    final Map<String, Long> stock = new HashMap<>();
    /** What became of the forward message of a try: "ssucc" or "sfail". */
    final Map<String, String> outcomes = new HashMap<>();
    /** What a try has taken and not given back. */
    final Map<String, JsonNode> taken = new HashMap<>();
    /** Tries that were rolled back, perhaps before their forward message came. */
    final Map<String, Boolean> undone = new HashMap<>();

    /** The answer to a message of the topic `stock`; null if it is none. */
    String answer(String key, JsonNode message) {
        JsonNode items = message.get("items");
        switch (message.path("type").asText()) {
            case "sub":
                String outcome = outcomes.get(key);
                if (outcome == null) {
                    // A rollback that came first has ended the try: nothing is taken any more.
                    outcome = !undone.containsKey(key) && take(key, items) ? "ssucc" : "sfail";
                    outcomes.put(key, outcome);
                }
                return outcome;
            case "add":
                if (undone.putIfAbsent(key, true) == null && taken.containsKey(key)) {
                    taken.remove(key).forEach(line -> stock.merge(line.get("id").asText(), line.get("amnt").asLong(), Long::sum));
                }
                return "asucc";
            default:
                return null;
        }
    }

    /** What it has answered before it was last ended. */
    void remember(String key, JsonNode answer) {
        switch (answer.path("type").asText()) {
            case "ssucc":
                if (outcomes.putIfAbsent(key, "ssucc") == null) {
                    answer.get("items").forEach(line -> stock.merge(line.get("id").asText(), -line.get("amnt").asLong(), Long::sum));
                    taken.put(key, answer.get("items"));
                }
                break;
            case "sfail":
                outcomes.putIfAbsent(key, "sfail");
                break;
            case "asucc":
                answer(key, JSON.createObjectNode().put("type", "add"));
                break;
            default:
                // The other side's, or a decision.
        }
    }

    /** All of it or nothing. */
    boolean take(String key, JsonNode items) {
        Map<String, Long> wanted = new HashMap<>();
        items.forEach(line -> wanted.merge(line.get("id").asText(), line.get("amnt").asLong(), Long::sum));
        boolean enough = wanted.entrySet().stream().allMatch(line -> stock.getOrDefault(line.getKey(), 0L) >= line.getValue());
        if (enough) {
            wanted.forEach((item, amount) -> stock.merge(item, -amount, Long::sum));
            taken.put(key, items);
        }
        return enough;
    }

    /** Reads a topic from its beginning. */
    static List<TopicPartition> all(KafkaConsumer<String, String> consumer, String topic) {
        List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                .map(of -> new TopicPartition(topic, of.partition())).collect(Collectors.toList());
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
        return partitions;
    }

    public static void main(String[] arguments) throws Exception {
        Warehouse warehouse = new Warehouse();
        for (int at = 2; at < arguments.length; at++) {
            String[] line = arguments[at].split("=");
            warehouse.stock.put(line[0], Long.parseLong(line[1]));
        }
        String steps = arguments[1] + "stock", outcomes = arguments[1] + "outcomes";
        Map<String, Object> reading = Map.of("bootstrap.servers", arguments[0], "auto.offset.reset", "earliest",
                "key.deserializer", StringDeserializer.class, "value.deserializer", StringDeserializer.class);
        Map<String, Object> writing = Map.of("bootstrap.servers", arguments[0], "acks", "all", "enable.idempotence", true,
                "key.serializer", StringSerializer.class, "value.serializer", StringSerializer.class);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading);
                KafkaProducer<String, String> producer = new KafkaProducer<>(writing)) {
            List<TopicPartition> answered = all(consumer, outcomes);
            Map<TopicPartition, Long> ends = consumer.endOffsets(answered);
            while (answered.stream().anyMatch(of -> consumer.position(of) < ends.get(of))) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    try {
                        warehouse.remember(JSON.readTree(record.key()).toString(), JSON.readTree(record.value()));
                    } catch (Exception poison) {
                        System.err.println("not a message: " + record.offset());
                    }
                }
            }
            all(consumer, steps);
            System.out.println("the warehouse is open");
            while (true) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    JsonNode message, key;
                    try {
                        message = JSON.readTree(record.value());
                        key = JSON.readTree(record.key());
                    } catch (Exception poison) {
                        System.err.println("not a message: " + record.offset());
                        continue;
                    }
                    // Spaces do not matter in a key.
                    String type = warehouse.answer(key.toString(), message);
                    if (type == null) {
                        continue;
                    }
                    ObjectNode answer = JSON.createObjectNode().put("type", type);
                    answer.set("items", message.get("items"));
                    // On the number of the partition that the question came from.
                    producer.send(new ProducerRecord<>(outcomes, record.partition(), record.key(), answer.toString()));
                }
                producer.flush();
            }
        }
    }
}
