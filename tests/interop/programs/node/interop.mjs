// PulsarFlex, a client in pure JavaScript, asks the questions of tests/interop/tables.py for which it has the features.
// It prints "ok NAME", "failed NAME: reason" or "absent NAME". Apache's Node client needs a native library from GitHub.
import { once } from "node:events";
import { createInterface } from "node:readline";
import pulsarFlex from "pulsar-flex";

const { Consumer, Producer } = pulsarFlex;
const PREFIX = process.env.INTEROP_PREFIX;
const WAIT_MS = 20_000;
const SHARE_MS = 50;
const RECEIPT_MS = 4_000;
const TRIES = 12;
const quiet = () => () => {};

const options = (topic, jwt = process.env.INTEROP_TOKEN) => ({
  topic: `persistent://public/default/${PREFIX}-${topic}`,
  discoveryServers: [new URL(process.env.INTEROP_URL).host],
  jwt,
  logCreator: quiet,
});

const check = (is, reason) => {
  if (!is) throw new Error(reason);
};

const soon = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const within = (promise, what, ms = WAIT_MS) =>
  Promise.race([promise, soon(ms).then(() => Promise.reject(new Error(`waited in vain for ${what}`)))]);

async function produced(topic, numbers) {
  const producer = new Producer({ ...options(topic), producerAccessMode: Producer.ACCESS_MODES.SHARED });
  await producer.create();
  await producer.sendBatch({
    messages: numbers.map((number) => ({ payload: String(number), properties: { n: String(number) } })),
  });
  return producer;
}

async function consumed(topic, subType, name, taken, pauseMs = 0, receiveQueueSize = 500) {
  const consumer = new Consumer({
    ...options(topic),
    subscription: "s",
    subType,
    consumerName: name,
    receiveQueueSize,
    reconnectInterval: 500,
  });
  await consumer.subscribe();
  const started = consumer.run({
    autoAck: false,
    onMessage: async ({ ack, message, properties }) => {
      await ack();
      taken.push({ number: Number(message), properties });
      await soon(pauseMs);
    },
  });
  started.catch(() => {});
  return consumer;
}

// PulsarFlex forgets a send whose connection died before the receipt came. If it reconnects while the broker is dying, it
// waits 10 s for an answer and 10 s more.
async function sendUntilReceipt(producer, number) {
  for (let tries = 1; ; tries++) {
    try {
      return await within(producer.sendMessage({ payload: String(number), properties: {} }), "a receipt", RECEIPT_MS);
    } catch (error) {
      if (tries === TRIES) throw error;
    }
  }
}

async function arrived(count, ...takers) {
  const until = Date.now() + WAIT_MS;
  for (;;) {
    // A message may come twice, for example after a kill, so count each number once.
    const numbers = [...new Set(takers.flat().map((each) => each.number))];
    if (numbers.length >= count) return numbers.sort((left, right) => left - right);
    check(Date.now() < until, `got ${numbers} instead of ${count} numbers`);
    await soon(20);
  }
}

const upTo = (count) => [...Array(count).keys()];

async function produceAndConsume() {
  const taken = [];
  await consumed("plain", Consumer.SUB_TYPES.EXCLUSIVE, "a", taken);
  await produced("plain", upTo(100));
  await arrived(100, taken);
  taken.forEach(({ number, properties }, index) => {
    check(number === index, `got ${number} in place of ${index}`);
    check(JSON.stringify(properties).includes(String(index)), `properties ${JSON.stringify(properties)}`);
  });
}

async function exclusive() {
  await consumed("exclusive", Consumer.SUB_TYPES.EXCLUSIVE, "a", []);
  await refused(() => consumed("exclusive", Consumer.SUB_TYPES.EXCLUSIVE, "b", []));
}

async function shared() {
  const [first, second] = [[], []];
  await consumed("shared", Consumer.SUB_TYPES.SHARED, "a", first, SHARE_MS, 4);
  await consumed("shared", Consumer.SUB_TYPES.SHARED, "b", second, SHARE_MS, 4);
  const producer = await produced("shared", [0]);
  for (const number of upTo(40).slice(1)) await producer.sendMessage({ payload: String(number), properties: {} });
  await arrived(40, first, second);
  check(first.length > 0 && second.length > 0, `got ${first.length} and ${second.length}`);
}

async function token() {
  const producer = new Producer({
    ...options("token", process.env.INTEROP_FOREIGN_TOKEN),
    producerAccessMode: Producer.ACCESS_MODES.SHARED,
  });
  await refused(() => producer.create());
}

async function refused(call) {
  try {
    await within(call(), "a refusal");
  } catch (error) {
    check(!error.message.startsWith("waited"), error.message);
    return;
  }
  throw new Error("it was not refused");
}

async function reconnect() {
  const taken = [];
  await consumed("reconnect", Consumer.SUB_TYPES.EXCLUSIVE, "a", taken);
  const producer = await produced("reconnect", [0]);
  console.log("kill");
  const [answer] = await once(lines, "line");
  check(answer === "killed", answer);
  for (const number of upTo(20).slice(1)) await sendUntilReceipt(producer, number);
  await arrived(20, taken);
}

const absent = null;
const lines = createInterface({ input: process.stdin });
const questions = {
  "produce-and-consume": produceAndConsume,
  exclusive,
  failover: absent,
  shared,
  "key-shared": absent,
  schema: absent,
  seek: absent,
  "dead-letters": absent,
  reader: absent,
  partitions: absent,
  pattern: absent,
  token,
  tls: absent,
  reconnect,
};
process.on("unhandledRejection", () => {});
for (const [name, question] of Object.entries(questions)) {
  if (question === absent) {
    console.log(`absent ${name}`);
    continue;
  }
  try {
    await question();
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`failed ${name}: ${String(error.message ?? error.name).replaceAll("\n", " ")}`);
  }
}
process.exit(0);
