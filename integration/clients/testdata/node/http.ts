// Uses openapi-fetch with the types that openapi-typescript generates: node http.js URL.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./generated/http.js";
import { take, until } from "./steps.js";

type Message = components["schemas"]["Message"];
type Problem = components["schemas"]["Problem"];
type Query = NonNullable<paths["/v1/messages"]["get"]["parameters"]["query"]>;

const bridge = createClient<paths>({ baseUrl: process.argv[2]! });

const message = (id: string, more: Partial<Message> = {}): Message =>
  ({ id, sink: "console", topic: "http", delay: "1h", body: { order: 42 }, ...more });
const send = (body: Message) => bridge.POST("/v1/messages", { body });
const at = (id: string, query: { sink?: string; key?: string } = { sink: "console" }) => ({ params: { path: { id }, query } });
const get = (id: string, query?: { sink?: string }) => bridge.GET("/v1/messages/{id}", at(id, query));
const list = (query: Query) => bridge.GET("/v1/messages", { params: { query: { topic: "http-pages", ...query } } });
const cancel = (id: string) => bridge.DELETE("/v1/messages/{id}", at(id));

// succeeds returns what a call has answered.
async function succeeds<Data>(call: Promise<{ data?: Data; error?: Problem; response: Response }>, status = 200) {
  const { data, error, response } = await call;
  assert.equal(response.status, status, JSON.stringify(error));
  return data!;
}

// fails asserts the problem that a call has answered.
async function fails(call: Promise<{ error?: Problem; response: Response }>, want: Partial<Problem> & { status: number }) {
  const { error, response } = await call;
  assert.ok(error, `${want.code}: it did not fail`);
  assert.equal(response.status, want.status);
  assert.equal(response.headers.get("Content-Type"), "application/problem+json");
  const got = Object.fromEntries(Object.entries(error).filter(([name]) => name in want));
  assert.deepEqual(got, want, error.detail);
  assert.equal(error.type, `/problems/${want.code}`);
}

await take({
  async send() {
    const { id, state, durability, duplicate, deliver_at } = await succeeds(send(message("http/one", { priority: 3 })), 201);
    assert.deepEqual({ id, state, durability, duplicate },
      { id: "http/one", state: "scheduled", durability: "memory", duplicate: undefined });
    assert.ok(new Date(deliver_at!) > new Date());
    assert.equal((await succeeds(send(message("http/one", { priority: 3 })))).duplicate, true);
  },

  async publish() {
    const { id } = await succeeds(bridge.POST("/v1/publish/{sink}/{topic}", {
      params: { path: { sink: "console", topic: "http" }, header: { "Delaybridge-Delay": "1h", "Delaybridge-Key": "42" } },
      body: "as it is",
      bodySerializer: (text) => text,
      headers: { "Content-Type": "application/octet-stream" },
    }), 201);
    const { body, key, generated } = await succeeds(get(id));
    assert.deepEqual({ body, key, generated }, { body: "as it is", key: "42", generated: true });
  },

  async batch() {
    const pages = ["a", "b", "c"].map((id) => message(`http-${id}`, { topic: "http-pages" }));
    const results = await succeeds(bridge.POST("/v1/messages/batch", { body: [...pages, message("http-d", { delay: "x" })] }));
    assert.ok(Array.isArray(results));
    assert.deepEqual(results.map((r) => r.status), [201, 201, 201, 400]);
    assert.deepEqual(results.map((r) => r.id), ["http-a", "http-b", "http-c", undefined]);
    const { code, field, stored } = results[3]!;
    assert.deepEqual({ code, field, stored }, { code: "invalid", field: "delay", stored: false });
  },

  async get() {
    const { state, body, priority, attempt, may_have_been_sent } = await succeeds(get("http/one"));
    assert.deepEqual({ state, priority, attempt, may_have_been_sent },
      { state: "scheduled", priority: 3, attempt: 0, may_have_been_sent: false });
    assert.deepEqual(JSON.parse(body!), { order: 42 });
  },

  async list() {
    const ids: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await succeeds(list({ sink: ["console", "unreachable"], limit: 1, cursor }));
      assert.ok(page.messages.length <= 1);
      ids.push(...page.messages.map((m) => m.id));
      cursor = page.next_cursor;
    } while (cursor);
    assert.deepEqual(ids.sort(), ["http-a", "http-b", "http-c"]);
  },

  async reschedule() {
    const deliver_at = new Date(Date.now() + 600_000).toISOString();
    const changed = await succeeds(bridge.PATCH("/v1/messages/{id}", { ...at("http/one"), body: { deliver_at } }));
    assert.deepEqual(new Date(changed.deliver_at!), new Date(deliver_at));
    assert.deepEqual(new Date((await succeeds(get("http/one"))).due!), new Date(deliver_at));
  },

  async cancel() {
    const { state, may_have_been_sent } = await succeeds(cancel("http/one"));
    assert.deepEqual({ state, may_have_been_sent }, { state: "cancelled", may_have_been_sent: false });
    assert.equal((await succeeds(get("http/one"))).state, "cancelled");
  },

  async redrive() {
    const sink = "unreachable";
    await succeeds(send(message("http-late", { sink, delay: "1ms", ttl: "2ms" })), 201);
    await until(async () => (await succeeds(get("http-late", { sink }))).state === "expired");
    const dead = await succeeds(bridge.GET("/v1/dead", { params: { query: { sink: [sink], topic: "http" } } }));
    assert.deepEqual(dead.messages.map((m) => m.id), ["http-late"]);
    const { state } = await succeeds(bridge.POST("/v1/dead/{id}/redrive", at("http-late", { sink })));
    assert.equal(state, "scheduled");
    assert.notEqual((await succeeds(get("http-late", { sink }))).state, "expired");
  },

  async stats() {
    const { durability, sinks } = await succeeds(bridge.GET("/v1/stats"));
    assert.equal(durability, "memory");
    assert.deepEqual(sinks.map((s) => s.sink), ["console", "unreachable"]);
    assert.ok(sinks[0]!.since_start.accepted >= 5 && sinks[1]!.since_start.expired >= 1);
  },

  async "error malformed"() {
    const call = bridge.POST("/v1/messages", { body: message("x"), bodySerializer: () => "{" });
    await fails(call, { status: 400, code: "malformed", stored: false });
  },

  async "error invalid"() {
    // @ts-expect-error: the types know the members
    await fails(send({ topic: "http", dealy: "1h" }), { status: 400, code: "invalid", field: "dealy" });
    await fails(send(message("x", { delay: "soon" })), { status: 400, code: "invalid", field: "delay", stored: false });
  },

  async "error bad_cursor"() {
    await fails(list({ cursor: "none" }), { status: 400, code: "bad_cursor" });
  },

  async "error not_found"() {
    await fails(get("nowhere"), { status: 404, code: "not_found" });
  },

  async "error conflict"() {
    const other = message("http-a", { topic: "http-pages", body: "other" });
    await fails(send(other), { status: 409, code: "conflict", id: "http-a", sink: "console", stored: false });
  },

  async "error too_late"() {
    await fails(cancel("http/one"), { status: 409, code: "too_late", state: "cancelled", changed: false });
  },

  async "error ambiguous"() {
    for (const key of ["1", "2"]) await succeeds(send(message("http-twice", { key })), 201);
    await fails(get("http-twice"), { status: 409, code: "ambiguous" });
    assert.equal((await succeeds(bridge.GET("/v1/messages/{id}", at("http-twice", { key: "2" })))).key, "2");
  },

  async "error too_large"() {
    await fails(send(message("x", { body: "x".repeat(300_000) })), { status: 413, code: "too_large", stored: false });
  },

  async "error unsupported_media_type"() {
    const call = bridge.POST("/v1/messages", { body: message("x"), headers: { "Content-Type": "text/plain" } });
    await fails(call, { status: 415, code: "unsupported_media_type", stored: false });
  },
});
