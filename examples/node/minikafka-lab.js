// Three brokers for tests, and the verbs that break them: copy this file into your project.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

const UP = [
  'up', '--while-stdin', '--json', '--base-port', '0', '--control', '0', '--timeout', '120',
  '--config', 'offsets.topic.num.partitions=4', '--config', 'auto.create.topics.enable=false',
];

/** A cluster that `minikafka up` runs until its standard input ends: it cannot outlive the tests. */
export class MiniKafkaLab {
  #process;
  #control;

  /** Returns when all brokers are ready. Options are further ones of `minikafka up`. */
  static async start(...options) {
    const program = process.env.MINIKAFKA ?? 'minikafka';
    const up = spawn(program, [...UP, ...options], { stdio: ['pipe', 'pipe', 'inherit'] });
    const line = await new Promise((resolve, reject) => {
      const found = 'pip install minikafka, or set MINIKAFKA to where it is';
      up.once('error', (error) => reject(new Error(`cannot start ${program} (${found}): ${error.message}`)));
      const lines = createInterface({ input: up.stdout });
      lines.once('line', resolve);
      lines.once('close', () => reject(new Error(`${program} up has ended before its brokers were ready`)));
    });
    return new MiniKafkaLab(up, JSON.parse(line));
  }

  constructor(up, told) {
    this.#process = up;
    this.#control = told.control;
    this.bootstrap = told.bootstrap;
  }

  /** Has a verb carried out, with fields as http://.../v1/openapi.json describes them; its result. */
  async verb(name, fields = {}) {
    const headers = { 'Content-Type': 'application/json' };
    if (this.#control.token !== null) headers.Authorization = `Bearer ${this.#control.token}`;
    const answer = await fetch(`${this.#control.url}/${name}`, { method: 'POST', headers, body: JSON.stringify(fields) });
    const { result, error } = await answer.json();
    if (error !== undefined) throw new Error(`${name}: ${error}`);
    return result;
  }

  async close() {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const ended = once(this.#process, 'exit');
    this.#process.stdin.end();
    await ended;
  }
}
