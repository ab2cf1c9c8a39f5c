"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { test } = require("node:test");
const { open } = require("./sink");

const never = new AbortController().signal;

function message(fields = {}) {
  return { id: "1", topic: "orders", key: null, body: Buffer.from("hello"), options: {}, attempt: 1,
    headers: [{ name: "a", value: Buffer.from("1") }, { name: "a", value: null }], ...fields };
}

function newSink(t) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), "sink-"));
  t.after(() => fs.rmSync(dir, { recursive: true, force: true }));
  const lines = (topic) => fs.readFileSync(path.join(dir, topic + ".jsonl"), "utf8").trimEnd().split("\n").map(JSON.parse);
  return { dir, lines, sink: open({ dir, max_body: 10 }) };
}

test("delivers", async (t) => {
  const { sink, lines } = newSink(t);
  assert.deepEqual(await sink.deliver([message(), message({ body: null, key: Buffer.alloc(0) })], never), [null, null]);
  const [first, second] = lines("orders");
  assert.equal(Buffer.from(first.body_base64, "base64").toString(), "hello");
  assert.deepEqual(first.headers, [{ name: "a", value_base64: "MQ==" }, { name: "a", value_base64: null }]);
  assert.deepEqual([first.key_base64, second.key_base64, second.body_base64], [null, "", null]);
});

test("each message has its verdict", async (t) => {
  const { sink, lines } = newSink(t);
  const batch = [message(), message({ topic: "../etc" }), message({ body: Buffer.from("too large a body") }), message()];
  const verdicts = await sink.deliver(batch, never);
  assert.deepEqual(verdicts.map((v) => v?.name), [undefined, "Permanent", "Permanent", undefined]);
  assert.equal(lines("orders").length, 2);
});

test("calls at once keep their order", async (t) => {
  const { sink, lines } = newSink(t);
  const ids = Array.from({ length: 50 }, (_, n) => String(n));
  await Promise.all(ids.map((id) => sink.deliver([message({ id })], never)));
  assert.deepEqual(lines("orders").map((l) => l.id), ids);
});

test("check refuses", (t) => {
  const { sink } = newSink(t);
  sink.check(message({ options: { "retry.max_attempts": "3" } }));
  for (const [bad, field] of [
    [{ topic: ".hidden" }, "topic"], [{ topic: "t".repeat(201) }, "topic"],
    [{ body: Buffer.alloc(11) }, "body"], [{ options: { x: "1" } }, "options.x"],
  ]) {
    assert.throws(() => sink.check(message(bad)), { name: "Invalid", field });
  }
});

test("directory gone", async (t) => {
  const { sink, dir } = newSink(t);
  await sink.health();
  fs.rmdirSync(dir);
  assert.equal((await sink.deliver([message()], never))[0].name, "Blocked");
  await assert.rejects(sink.health());
});

test("settings", () => {
  for (const [config, fields] of [
    [{}, ["dir"]], [{ dir: "relative" }, ["dir"]], [{ dir: 1 }, ["dir"]],
    [{ dir: "/tmp", sync: 1, max_body: "1" }, ["sync", "max_body"]], [{ dir: "/tmp", max_body: 0, durr: "x" }, ["max_body", "durr"]],
  ]) {
    assert.throws(() => open(config), (err) => {
      assert.deepEqual(err.faults.map((f) => f.field), fields);
      return true;
    });
  }
});
