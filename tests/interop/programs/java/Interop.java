import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.client.api.schema.*;
import org.apache.pulsar.common.schema.SchemaType;

/** Apache's Java client asks each question of tests/interop/tables.py, and prints "ok NAME" or "failed NAME: reason". */
public final class Interop {
    private static final String PREFIX = System.getenv("INTEROP_PREFIX");
    private static final int WAIT_S = 20;
    private static final int SILENCE_MS = 300;

    public static final class Order {
        public String article;
        public int pieces;
    }

    private interface Question {
        void ask(PulsarClient client) throws Exception;
    }

    private static PulsarClient connect(String url, String token, String trust) throws PulsarClientException {
        ClientBuilder builder = PulsarClient.builder().serviceUrl(url)
            .authentication(AuthenticationFactory.token(token))
            .operationTimeout(5, TimeUnit.SECONDS).lookupTimeout(5, TimeUnit.SECONDS)
            .connectionTimeout(5, TimeUnit.SECONDS);
        if (trust != null) {
            builder.tlsTrustCertsFilePath(trust).enableTlsHostnameVerification(true);
        }
        return builder.build();
    }

    private static PulsarClient connect() throws PulsarClientException {
        return connect(System.getenv("INTEROP_URL"), System.getenv("INTEROP_TOKEN"), null);
    }

    private static void check(boolean is, Object reason) {
        if (!is) {
            throw new IllegalStateException(String.valueOf(reason));
        }
    }

    private static ConsumerBuilder<byte[]> consumer(PulsarClient client, String topic) {
        return client.newConsumer().topic(topic).subscriptionName("s");
    }

    private static void publish(PulsarClient client, String topic, int from, int to) throws PulsarClientException {
        try (Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(false).create()) {
            for (int number = from; number < to; number++) {
                producer.newMessage().key("key-" + number % 10).value(String.valueOf(number).getBytes()).send();
            }
        }
    }

    private static Message<byte[]> next(Consumer<byte[]> consumer) throws PulsarClientException {
        Message<byte[]> message = consumer.receive(WAIT_S, TimeUnit.SECONDS);
        check(message != null, "no message came");
        return message;
    }

    private static int number(Message<byte[]> message) {
        return Integer.parseInt(new String(message.getData()));
    }

    private static List<Integer> take(Consumer<byte[]> consumer, int count) throws PulsarClientException {
        List<Integer> numbers = new ArrayList<>();
        for (int taken = 0; taken < count; taken++) {
            Message<byte[]> message = next(consumer);
            numbers.add(number(message));
            consumer.acknowledge(message);
        }
        return numbers;
    }

    private static List<Integer> numbers(int from, int to) {
        return IntStream.range(from, to).boxed().toList();
    }

    private static void produceAndConsume(PulsarClient client) throws Exception {
        Consumer<byte[]> consumer = consumer(client, PREFIX + "-plain").subscribe();
        Producer<byte[]> producer = client.newProducer().topic(PREFIX + "-plain").batchingMaxMessages(10).create();
        for (int number = 0; number < 100; number++) {
            String text = String.valueOf(number);
            producer.newMessage().key("k" + text).property("n", text).value(text.getBytes()).sendAsync();
        }
        producer.flush();
        for (int number = 0; number < 100; number++) {
            Message<byte[]> message = next(consumer);
            String text = String.valueOf(number);
            check(number(message) == number && message.getKey().equals("k" + text)
                && message.getProperties().equals(Map.of("n", text)), "another message in place of " + text);
            consumer.acknowledge(message);
        }
    }

    private static void exclusive(PulsarClient client) throws Exception {
        consumer(client, PREFIX + "-exclusive").subscribe();
        try {
            consumer(client, PREFIX + "-exclusive").subscribe();
        } catch (PulsarClientException.ConsumerBusyException refused) {
            return;
        }
        check(false, "the second consumer was not refused");
    }

    private static void failover(PulsarClient client) throws Exception {
        String topic = PREFIX + "-failover";
        List<Consumer<byte[]>> consumers = new ArrayList<>();
        for (String name : List.of("a", "b")) {
            consumers.add(consumer(client, topic).subscriptionType(SubscriptionType.Failover)
                .consumerName(name).subscribe());
        }
        publish(client, topic, 0, 10);
        List<List<Message<byte[]>>> halves = drain(consumers, 10);
        check(halves.get(0).isEmpty() || halves.get(1).isEmpty(), "both got messages");
        int active = halves.get(0).isEmpty() ? 1 : 0;
        consumers.get(active).close();
        publish(client, topic, 10, 20);
        check(take(consumers.get(1 - active), 10).equals(numbers(10, 20)), "the standby got others");
    }

    private static List<List<Message<byte[]>>> both(PulsarClient client, String topic, SubscriptionType type)
            throws PulsarClientException {
        List<Consumer<byte[]>> consumers = new ArrayList<>();
        for (int each = 0; each < 2; each++) {
            consumers.add(consumer(client, topic).subscriptionType(type).receiverQueueSize(5).subscribe());
        }
        publish(client, topic, 0, 100);
        return drain(consumers, 100);
    }

    private static List<List<Message<byte[]>>> drain(List<Consumer<byte[]>> consumers, int count)
            throws PulsarClientException {
        List<List<Message<byte[]>>> halves = List.of(new ArrayList<>(), new ArrayList<>());
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_S);
        while (halves.get(0).size() + halves.get(1).size() < count) {
            check(System.nanoTime() < until, "got " + halves.get(0).size() + " and " + halves.get(1).size());
            for (int each = 0; each < 2; each++) {
                Message<byte[]> message;
                while ((message = consumers.get(each).receive(SILENCE_MS, TimeUnit.MILLISECONDS)) != null) {
                    consumers.get(each).acknowledge(message);
                    halves.get(each).add(message);
                }
            }
        }
        return halves;
    }

    private static void shared(PulsarClient client) throws Exception {
        Set<Integer> seen = new TreeSet<>();
        for (List<Message<byte[]>> half : both(client, PREFIX + "-shared", SubscriptionType.Shared)) {
            check(!half.isEmpty(), "one consumer got nothing");
            half.forEach(message -> seen.add(number(message)));
        }
        check(seen.size() == 100, seen);
    }

    private static void keyShared(PulsarClient client) throws Exception {
        Map<String, Integer> where = new HashMap<>();
        List<List<Message<byte[]>>> halves = both(client, PREFIX + "-key-shared", SubscriptionType.Key_Shared);
        for (int each = 0; each < 2; each++) {
            for (Message<byte[]> message : halves.get(each)) {
                Integer before = where.put(message.getKey(), each);
                check(before == null || before == each, message.getKey() + " went to both consumers");
            }
        }
        check(where.size() == 10, where);
    }

    private static void schema(PulsarClient client) throws Exception {
        String topic = PREFIX + "-schema";
        Consumer<Order> consumer = client.newConsumer(Schema.JSON(Order.class)).topic(topic)
            .subscriptionName("s").subscribe();
        Order order = new Order();
        order.article = "tea";
        order.pieces = 3;
        client.newProducer(Schema.JSON(Order.class)).topic(topic).create().send(order);
        Order found = consumer.receive(WAIT_S, TimeUnit.SECONDS).getValue();
        check(found.article.equals("tea") && found.pieces == 3, found.article);
        RecordSchemaBuilder other = SchemaBuilder.record("Order");
        other.field("article").type(SchemaType.INT32).required();
        try {
            client.newProducer(Schema.generic(other.build(SchemaType.JSON))).topic(topic).create();
        } catch (PulsarClientException.IncompatibleSchemaException refused) {
            return;
        }
        check(false, "another schema was not refused");
    }

    private static void seek(PulsarClient client) throws Exception {
        Consumer<byte[]> consumer = consumer(client, PREFIX + "-seek").subscribe();
        publish(client, PREFIX + "-seek", 0, 10);
        check(take(consumer, 10).equals(numbers(0, 10)), "it got others");
        consumer.seek(MessageId.earliest);
        check(take(consumer, 10).equals(numbers(0, 10)), "it got others after the seek");
    }

    private static void deadLetters(PulsarClient client) throws Exception {
        String topic = PREFIX + "-poison";
        Consumer<byte[]> dead = consumer(client, topic + "-dead").subscribe();
        Consumer<byte[]> consumer = consumer(client, topic).subscriptionType(SubscriptionType.Shared)
            .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS)
            .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(1).deadLetterTopic(topic + "-dead").build())
            .subscribe();
        publish(client, topic, 0, 1);
        for (int time = 0; time < 2; time++) {
            consumer.negativeAcknowledge(next(consumer));
        }
        check(consumer.receive(1, TimeUnit.SECONDS) == null, "the consumer got it a third time");
        check(take(dead, 1).equals(List.of(0)), "another dead letter");
    }

    private static void reader(PulsarClient client) throws Exception {
        publish(client, PREFIX + "-reader", 0, 10);
        Reader<byte[]> reader = client.newReader().topic(PREFIX + "-reader")
            .startMessageId(MessageId.earliest).create();
        for (int number = 0; number < 10; number++) {
            Message<byte[]> message = reader.readNext(WAIT_S, TimeUnit.SECONDS);
            check(message != null && number(message) == number, "another message in place of " + number);
        }
        check(!reader.hasMessageAvailable(), "there is another message");
    }

    private static void partitions(PulsarClient client) throws Exception {
        String topic = PREFIX + "-partitioned";
        List<String> found = client.getPartitionsForTopic(topic).get();
        check(found.size() == 3, found);
        Consumer<byte[]> consumer = consumer(client, topic).subscribe();
        publish(client, topic, 0, 30);
        check(new TreeSet<>(take(consumer, 30)).size() == 30, "a message came twice");
    }

    private static void pattern(PulsarClient client) throws Exception {
        String topic = PREFIX + "-pattern-";
        client.newProducer().topic(topic + "a").create().close();
        Consumer<byte[]> consumer = client.newConsumer().subscriptionName("s")
            .topicsPattern(Pattern.compile("persistent://public/default/" + topic + ".*"))
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
        publish(client, topic + "a", 0, 5);
        publish(client, topic + "b", 5, 10); // a new topic, which the consumer must discover
        check(new TreeSet<>(take(consumer, 10)).size() == 10, "a message came twice");
    }

    private static void token(PulsarClient client) throws Exception {
        try (PulsarClient stranger =
                connect(System.getenv("INTEROP_URL"), System.getenv("INTEROP_FOREIGN_TOKEN"), null)) {
            refused(stranger, PREFIX + "-token");
        }
    }

    private static void tls(PulsarClient client) throws Exception {
        String url = System.getenv("INTEROP_TLS_URL");
        String token = System.getenv("INTEROP_TOKEN");
        try (PulsarClient trusting = connect(url, token, System.getenv("INTEROP_TRUST"))) {
            publish(trusting, PREFIX + "-tls", 0, 1);
        }
        try (PulsarClient stranger = connect(url, token, System.getenv("INTEROP_FOREIGN_TRUST"))) {
            refused(stranger, PREFIX + "-tls");
        }
    }

    private static void refused(PulsarClient client, String topic) {
        try {
            client.newProducer().topic(topic).create();
        } catch (PulsarClientException refused) {
            return;
        }
        check(false, "it was not refused");
    }

    private static void reconnect(PulsarClient client) throws Exception {
        String topic = PREFIX + "-reconnect";
        Consumer<byte[]> consumer = consumer(client, topic).subscribe();
        Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(false)
            .sendTimeout(60, TimeUnit.SECONDS).create();
        producer.send("0".getBytes());
        System.out.println("kill");
        check(new BufferedReader(new InputStreamReader(System.in)).readLine().equals("killed"), "no answer");
        for (int number = 1; number < 20; number++) {
            producer.send(String.valueOf(number).getBytes());
        }
        Set<Integer> seen = new HashSet<>();
        while (seen.size() < 20) {
            Message<byte[]> message = next(consumer);
            seen.add(number(message));
            consumer.acknowledge(message);
        }
    }

    private static void ask(String name, Question question) {
        try (PulsarClient client = connect()) {
            question.ask(client);
            System.out.println("ok " + name);
        } catch (Exception failure) {
            System.out.println("failed " + name + ": " + failure.toString().replace('\n', ' '));
        }
    }

    public static void main(String[] arguments) {
        ask("produce-and-consume", Interop::produceAndConsume);
        ask("exclusive", Interop::exclusive);
        ask("failover", Interop::failover);
        ask("shared", Interop::shared);
        ask("key-shared", Interop::keyShared);
        ask("schema", Interop::schema);
        ask("seek", Interop::seek);
        ask("dead-letters", Interop::deadLetters);
        ask("reader", Interop::reader);
        ask("partitions", Interop::partitions);
        ask("pattern", Interop::pattern);
        ask("token", Interop::token);
        ask("tls", Interop::tls);
        ask("reconnect", Interop::reconnect);
        System.exit(0);
    }
}
