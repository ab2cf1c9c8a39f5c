"use strict";

// The {{name}} sink. It appends each message to DIR/TOPIC.jsonl, a line of JSON each.
//
// Replace this by what talks to your broker. Keep the shape: settings are decoded
// strictly, everything that can be refused is refused in check, and every error is
// one of Retry, Unknown, Permanent, Blocked and TopicBlocked.

const fs = require("node:fs");
const path = require("node:path");
const { Retry, Permanent, Blocked, TopicBlocked, Invalid, Faults } = require("./delaybridge-plugin");

const MAX_TOPIC = 200; // bytes; file systems take names of 255

/** Only one process at a time may write to a directory. */
class Sink {
  constructor({ dir, sync, maxBody }) {
    Object.assign(this, { dir, sync, maxBody, tails: new Map() });
  }

  /** Refuses what can never be delivered, while the producer is still there to hear it. */
  check({ topic, body, options }) {
    if (topic.startsWith(".") || /[/\0]/.test(topic)) {
      throw new Invalid("topic", "must not hold / or begin with a dot, as it becomes the name of a file");
    }
    if (Buffer.byteLength(topic) > MAX_TOPIC) {
      throw new Invalid("topic", `must have at most ${MAX_TOPIC} bytes, as it becomes the name of a file`);
    }
    if ((body?.length ?? 0) > this.maxBody) {
      throw new Invalid("body", `is larger than max_body, ${this.maxBody} bytes`, { tooLarge: true });
    }
    for (const name of Object.keys(options)) {
      if (!name.startsWith("retry.")) { // those are delaybridge's own
        throw new Invalid("options." + name, "is not known; this sink has no options");
      }
    }
  }

  async deliver(batch, signal) {
    const verdicts = batch.map(() => null);
    const topics = new Map();
    batch.forEach((message, n) => {
      try {
        this.check(message); // limits may have changed since it was accepted
        topics.set(message.topic, [...(topics.get(message.topic) ?? []), n]);
      } catch (err) {
        verdicts[n] = new Permanent(err);
      }
    });
    await Promise.all([...topics].map(async ([topic, numbers]) => {
      try {
        const data = Buffer.from(numbers.map((n) => line(batch[n])).join(""));
        await this.inTurn(topic, () => this.append(topic, data, signal));
      } catch (err) {
        for (const n of numbers) verdicts[n] = err;
      }
    }));
    return verdicts;
  }

  /** Does one thing at a time for each topic, in the order asked for. */
  async inTurn(topic, work) {
    const turn = (this.tails.get(topic) ?? Promise.resolve()).then(work);
    const tail = turn.catch(() => {});
    this.tails.set(topic, tail);
    try {
      return await turn;
    } finally {
      if (this.tails.get(topic) === tail) this.tails.delete(topic);
    }
  }

  /** Resolves when data is on the disk, and leaves no half of it there. */
  async append(topic, data, signal) {
    if (signal.aborted) throw new Retry("there was no time left to begin");
    let file;
    try {
      file = await fs.promises.open(path.join(this.dir, topic + ".jsonl"), "a", 0o640);
    } catch (err) {
      throw beforeWriting(err);
    }
    try {
      const { size } = await file.stat();
      try {
        await file.writeFile(data);
      } catch (err) {
        await file.truncate(size); // if this fails too, it is Unknown
        throw new Retry(err);
      }
      if (this.sync) await file.sync(); // if this fails, nobody knows: Unknown
    } finally {
      await file.close();
    }
  }

  async health() {
    await fs.promises.access(this.dir, fs.constants.W_OK | fs.constants.X_OK);
  }

  async close() {} // no file stays open
}

/** Nothing has been written: is it worth another try by itself, or must somebody act? */
function beforeWriting(err) {
  if (["EISDIR", "ENXIO", "ELOOP"].includes(err.code)) return new TopicBlocked(err); // something else has this topic's name
  if (["EACCES", "EPERM", "EROFS", "ENOENT", "ENOTDIR"].includes(err.code)) return new Blocked(err);
  return new Retry(err); // no space, too many open files, …
}

/** Bytes are in base64, as JSON has none; null is not the same as empty. */
function line(m) {
  const text = (data) => (data === null ? null : data.toString("base64"));
  return JSON.stringify({
    id: m.id, key_base64: text(m.key),
    headers: m.headers.map(({ name, value }) => ({ name, value_base64: text(value) })),
    body_base64: text(m.body),
  }) + "\n";
}

const settings = [
  { name: "dir", description: "absolute path of the directory that the files are in; made if missing", required: true },
  { name: "sync", description: "whether a message is on the disk before it counts as delivered", default: "true" },
  { name: "max_body", description: "largest body, in bytes", default: "1048576" },
];

/** Looks at every setting before it opens anything, and reports all that is wrong at once. */
function open(config) {
  const { dir = "", sync = true, max_body: maxBody = 1 << 20, ...others } = config;
  const faults = [];
  if (typeof dir !== "string" || !path.isAbsolute(dir)) {
    faults.push(new Invalid("dir", "must be an absolute path, such as /var/lib/{{name}}"));
  }
  if (typeof sync !== "boolean") faults.push(new Invalid("sync", "must be true or false"));
  if (!Number.isInteger(maxBody) || maxBody < 1) faults.push(new Invalid("max_body", "must be a whole number from 1"));
  for (const name of Object.keys(others)) {
    faults.push(new Invalid(name, `is not known; known are ${settings.map((s) => s.name).join(", ")}`));
  }
  if (faults.length > 0) throw new Faults(faults);
  try {
    fs.mkdirSync(dir, { recursive: true });
  } catch {
    // deliver says so, and goes on when it has been mended
  }
  return new Sink({ dir, sync, maxBody });
}

module.exports = {
  open, settings, name: "{{name}}", version: "0.1.0", checks: true, tellsHealth: true,
  description: "appends messages to a file of JSON lines for each topic",
};
