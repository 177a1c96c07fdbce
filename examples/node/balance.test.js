import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Kafka, logLevel } from 'kafkajs';
import { Balance, MendedBalance } from './balance.js';
import { MiniKafkaLab } from './minikafka-lab.js';

const PATIENCE_MS = 60_000;
const Service = process.env.EXAMPLE === 'as-it-was' ? Balance : MendedBalance;

let lab;
before(async () => { lab = await MiniKafkaLab.start(); });
after(() => lab?.close());

async function send(topic, ...values) {
  const kafka = new Kafka({ brokers: lab.bootstrap.split(','), logLevel: logLevel.NOTHING });
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic, messages: values.map((value) => ({ value })) });
  await producer.disconnect();
}

async function committed(group) {
  const groups = await lab.verb('groups');
  return Object.values(groups[group]?.offsets ?? {}).reduce((sum, offset) => sum + offset, 0);
}

test('an amount that comes again counts once', async () => {
  const topic = await lab.verb('create_topic');
  await send(topic, '5', '7');
  await lab.verb('inject_error', { api: 'OffsetCommit', code: 'REBALANCE_IN_PROGRESS', topic, count: 1 });

  const store = {};
  const balance = new Service(lab.bootstrap, topic, store);
  await balance.start();
  const deadline = Date.now() + PATIENCE_MS;
  while ((await committed(`balance-of-${topic}`)) < 2 && Date.now() < deadline) await sleep(50);
  await balance.stop();

  assert.equal(store.balance, 12, `5 and 7 are not ${store.balance}`);
});
