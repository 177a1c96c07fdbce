// Adds up the amounts of a topic.
import { Kafka, logLevel } from 'kafkajs';

/** `store` outlives the service. */
export class Balance {
  constructor(bootstrap, topic, store) {
    this.topic = topic;
    this.store = store;
    const kafka = new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.NOTHING });
    // A rebalance and the end wait for the fetch that is under way: not for kafkajs's five seconds.
    this.consumer = kafka.consumer({ groupId: `balance-of-${topic}`, maxWaitTimeInMs: 500 });
  }

  async start() {
    await this.consumer.connect();
    await this.consumer.subscribe({ topics: [this.topic], fromBeginning: true });
    await this.consumer.run({ eachMessage: async (each) => this.handle(each) });
  }

  async stop() {
    await this.consumer.disconnect();
  }

  handle({ message }) {
    this.store.balance = (this.store.balance ?? 0) + Number(message.value);
  }
}

/** Keeps, with the balance, how far it has come: what comes again is left out. */
export class MendedBalance extends Balance {
  handle(each) {
    const done = `done-${each.topic}-${each.partition}`;
    const offset = Number(each.message.offset);
    if (offset < (this.store[done] ?? 0)) return;
    super.handle(each);
    this.store[done] = offset + 1;
  }
}
