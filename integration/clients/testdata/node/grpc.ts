// Uses the client that ts-proto generates for @grpc/grpc-js: node grpc.js ADDRESS.
import assert from "node:assert/strict";
import { credentials, status, type ServiceError } from "@grpc/grpc-js";
import {
  BridgeServiceClient,
  ListRequest,
  Message,
  State,
  type CancelResponse,
  type GetResponse,
  type ListResponse,
  type PublishResponse,
  type RedriveResponse,
  type RescheduleResponse,
  type StatsResponse,
} from "./generated/delaybridge/v1/bridge.js";
import { BadRequest, ErrorInfo } from "./generated/google/rpc/error_details.js";
import { Status } from "./generated/google/rpc/status.js";
import { take, until } from "./steps.js";

const bridge = new BridgeServiceClient(process.argv[2]!, credentials.createInsecure());

// call turns a method with a callback into a promise.
function call<Response>(
  method: (done: (error: ServiceError | null, response: Response) => void) => void,
): Promise<Response> {
  return new Promise((resolve, reject) => method((error, response) => (error ? reject(error) : resolve(response))));
}

const hour = { seconds: 3600, nanos: 0 };
const ref = (id: string) => ({ id, sink: "console" });
const message = (id: string, more: Partial<Message> = {}) =>
  Message.fromPartial({ id, sink: "console", topic: "grpc", delay: hour, body: Buffer.from("text"), ...more });
const publish = (...messages: Message[]) => call<PublishResponse>((done) => bridge.publish({ messages }, done));
const get = async (id: string, sink = "console") =>
  (await call<GetResponse>((done) => bridge.get({ ref: { id, sink } }, done))).entry!;
const list = (request: Partial<ListRequest>) =>
  call<ListResponse>((done) => bridge.list(ListRequest.fromPartial({ topic: "pages", ...request }), done));
const cancel = (id: string) => call<CancelResponse>((done) => bridge.cancel({ ref: ref(id) }, done));

// fails asserts how a call fails, and returns the details of the error.
async function fails(call: Promise<unknown>, code: status, reason: string) {
  const error: ServiceError = await call.then(() => assert.fail(`${reason}: it did not fail`), (error) => error);
  assert.equal(error.code, code, error.message);
  const [packed] = error.metadata.get("grpc-status-details-bin");
  const details = Status.decode(packed as Buffer).details;
  const unpack = <T>(type: string, decode: (bytes: Uint8Array) => T) =>
    details.filter((d) => d.typeUrl === `type.googleapis.com/google.rpc.${type}`).map((d) => decode(d.value))[0];
  const info = unpack("ErrorInfo", (bytes) => ErrorInfo.decode(bytes));
  assert.equal(info?.domain, "delaybridge");
  assert.equal(info.reason, reason);
  const fields = unpack("BadRequest", (bytes) => BadRequest.decode(bytes))?.fieldViolations.map((v) => v.field);
  return { metadata: info.metadata, fields };
}

await take({
  async publish() {
    const { results } = await publish(message("one"));
    assert.equal(results.length, 1);
    const { id, sink, state, durability, duplicate, deliverAt } = results[0]!;
    assert.deepEqual({ id, sink, state, durability, duplicate },
      { id: "one", sink: "console", state: State.STATE_SCHEDULED, durability: "memory", duplicate: false });
    assert.ok(deliverAt! > new Date());
    assert.equal((await publish(message("one"))).results[0]!.duplicate, true);
  },

  async batch() {
    const pages = ["a", "b", "c"].map((id) => message(id, { topic: "pages" }));
    const { results } = await publish(...pages, message("d", { topic: "" }));
    assert.deepEqual(results.map((r) => r.id), ["a", "b", "c", "d"]);
    assert.deepEqual(results.map((r) => r.error?.code), [undefined, undefined, undefined, "invalid"]);
    assert.equal(results[3]!.error!.field, "topic");
  },

  async get() {
    const entry = await get("one");
    assert.equal(entry.state, State.STATE_SCHEDULED);
    assert.equal(entry.message!.body!.toString(), "text");
    assert.equal(entry.mayHaveBeenSent, false);
  },

  async list() {
    const ids: string[] = [];
    let pageToken = "";
    do {
      const page = await list({ pageSize: 1, pageToken });
      assert.ok(page.entries.length <= 1);
      ids.push(...page.entries.map((entry) => entry.message!.id));
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    assert.deepEqual(ids.sort(), ["a", "b", "c"]);
  },

  async reschedule() {
    const deliverAt = new Date(Date.now() + 600_000);
    const { receipt } = await call<RescheduleResponse>((done) =>
      bridge.reschedule({ ref: ref("one"), deliverAt }, done),
    );
    assert.deepEqual(receipt!.deliverAt, deliverAt);
    assert.deepEqual((await get("one")).due, deliverAt);
  },

  async cancel() {
    const { receipt } = await cancel("one");
    assert.equal(receipt!.state, State.STATE_CANCELLED);
    assert.equal(receipt!.mayHaveBeenSent, false);
    assert.equal((await get("one")).state, State.STATE_CANCELLED);
  },

  async redrive() {
    const [delay, ttl] = [1, 2].map((ms) => ({ seconds: 0, nanos: ms * 1_000_000 }));
    await publish(message("late", { sink: "unreachable", delay, ttl }));
    await until(async () => (await get("late", "unreachable")).state === State.STATE_EXPIRED);
    const dead = await list({ topic: "grpc", states: [State.STATE_DEAD, State.STATE_EXPIRED] });
    assert.deepEqual(dead.entries.map((entry) => entry.message!.id), ["late"]);
    const { receipt } = await call<RedriveResponse>((done) =>
      bridge.redrive({ ref: { id: "late", sink: "unreachable" } }, done),
    );
    assert.equal(receipt!.state, State.STATE_SCHEDULED);
    assert.notEqual((await get("late", "unreachable")).state, State.STATE_EXPIRED);
  },

  async stats() {
    const { durability, sinks } = await call<StatsResponse>((done) => bridge.stats({ instance: "" }, done));
    assert.equal(durability, "memory");
    assert.deepEqual(sinks.map((s) => s.sink), ["console", "unreachable"]);
    const [delivering, expiring] = sinks.map((s) => s.sinceStart!);
    assert.ok(delivering!.accepted >= 4 && delivering!.repeated >= 1 && expiring!.expired >= 1);
  },

  async "error invalid"() {
    const past = publish(message("x", { delay: { seconds: -1, nanos: 0 } }));
    const { metadata, fields } = await fails(past, status.INVALID_ARGUMENT, "invalid");
    assert.equal(metadata["field"], "messages[0].delay");
    assert.equal(metadata["stored"], "false");
    assert.deepEqual(fields, ["messages[0].delay"]);
    assert.deepEqual((await fails(get("a b"), status.INVALID_ARGUMENT, "invalid")).fields, ["ref.id"]);
  },

  async "error bad_cursor"() {
    const { fields } = await fails(list({ pageToken: "none" }), status.INVALID_ARGUMENT, "bad_cursor");
    assert.deepEqual(fields, ["page_token"]);
  },

  async "error not_found"() {
    await fails(get("nowhere"), status.NOT_FOUND, "not_found");
  },

  async "error conflict"() {
    const other = publish(message("a", { topic: "pages", body: Buffer.from("other") }));
    const { metadata } = await fails(other, status.ALREADY_EXISTS, "conflict");
    assert.equal(metadata["stored"], "false");
  },

  async "error too_late"() {
    const { metadata } = await fails(cancel("one"), status.FAILED_PRECONDITION, "too_late");
    assert.equal(metadata["state"], "cancelled");
    assert.equal(metadata["changed"], "false");
  },

  async "error ambiguous"() {
    await publish(message("twice", { key: Buffer.from("1") }), message("twice", { key: Buffer.from("2") }));
    await fails(get("twice"), status.FAILED_PRECONDITION, "ambiguous");
  },

  async "error too_large"() {
    await fails(publish(message("large", { body: Buffer.alloc(300_000) })), status.RESOURCE_EXHAUSTED, "too_large");
  },
});
bridge.close();
