"use strict";

// Serves a sink to delaybridge. Part of the template: authors need not touch it.
//
// A sink is an object with these methods; the last three are optional:
//
//   async deliver(batch, signal)  sends an array of messages. Returns nothing if
//                                 the broker has confirmed all of them, or an
//                                 array with, for each message, null (confirmed)
//                                 or one of the errors below. To throw one of the
//                                 errors says it of the whole batch. Called again
//                                 before earlier calls have ended. signal is an
//                                 AbortSignal: nobody waits any longer.
//   async close()                 lets go of the broker. No deliver is under way then.
//   check(message)                throws Invalid for what can never be delivered.
//                                 Quick, as a producer waits; it may be async.
//   async health()                throws an error if messages could not be delivered now.
//
// Whatever else deliver throws counts as Unknown: the message is tried again, and
// counted as a possible duplicate.
//
// A message has id, topic, key, body (Buffers; null is none, which is not the same
// as an empty one), headers ([{name, value}], all that are to be sent, in order;
// value is a Buffer or null), options (an object), deliverAtMs, expiresAtMs (0 is
// never), priority (0 to 9) and attempt (from 1).
//
//   serve({name: "mine", version: "0.1.0", open, ...})
//
// is all that the main program has to call. open(config) gets the configuration as
// an object and returns the sink, or throws Invalid, or Faults for several. It does
// not fail because the broker is down: deliver tells that.
//
// Logging: use log.debug, log.info, log.warn, log.error; console.log goes to the
// host's log as well.

const crypto = require("node:crypto");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { Console } = require("node:console");
const grpc = require("@grpc/grpc-js");
const protoLoader = require("@grpc/proto-loader");

const PROTOCOL = 1;
const MAX_BYTES = 16 << 20; // of one call; the host sends 3 MiB at most
const DRAIN_MS = 2000; // that calls under way have at the end
const MAX_TEXT = 1000; // characters of an error: a reply has hundreds of them

// What authors use.

/** Why a message was not confirmed. after is how many milliseconds the broker asked us to wait, if it did; with Retry and Blocked. */
class DeliveryError extends Error {
  constructor(reason, { after = 0, cause } = {}) {
    super(reason instanceof Error ? reason.message : reason, { cause: cause ?? reason });
    this.name = this.constructor.name;
    this.after = after;
  }
}
/** Not sent, but it may work later. */
class Retry extends DeliveryError { outcome = "OUTCOME_RETRY"; }
/** It may have been sent: a time-out, or a connection lost after writing. */
class Unknown extends DeliveryError { outcome = "OUTCOME_UNKNOWN"; }
/** This message can never be sent. It becomes a dead letter. */
class Permanent extends DeliveryError { outcome = "OUTCOME_PERMANENT"; }
/** The broker refuses everything until an operator acts: login, configuration. The sink pauses. */
class Blocked extends DeliveryError { outcome = "OUTCOME_BLOCKED"; }
/** As Blocked, but for the topic of this message only. */
class TopicBlocked extends DeliveryError { outcome = "OUTCOME_TOPIC_BLOCKED"; }

/** What is wrong with a setting or a message. field is a path such as "tls.ca" or "hosts[0]"; empty: all. */
class Invalid extends Error {
  constructor(field, reason, { tooLarge = false } = {}) {
    super(field ? `${field}: ${reason}` : reason);
    this.name = "Invalid";
    Object.assign(this, { field, reason, tooLarge });
  }
}

/** Several Invalid at once. */
class Faults extends Error {
  constructor(faults) {
    super(faults.map((f) => f.message).join("; "));
    this.name = "Faults";
    this.faults = faults;
  }
}

/** One JSON object a line, which keeps its level on its way through the host. */
function write(level, message, fields = {}) {
  const line = { ...fields, "@level": level, "@message": String(message), "@timestamp": new Date().toISOString().replace("Z", "000Z") };
  process.stderr.write(JSON.stringify(line) + "\n");
}
const log = {
  debug: (message, fields) => write("debug", message, fields),
  info: (message, fields) => write("info", message, fields),
  warn: (message, fields) => write("warn", message, fields),
  error: (message, fields) => write("error", message, fields),
};

/**
 * Serves until the host ends it, and ends the process.
 * @param {{name: string, version: string, open: function, description?: string,
 *   settings?: {name: string, description: string, default?: string, required?: boolean, secret?: boolean}[],
 *   checks?: boolean, tellsHealth?: boolean, maxBatch?: number, maxBatchBytes?: number}} definition
 */
function serve(definition) {
  if (process.argv.includes("--describe")) {
    process.stdout.write(JSON.stringify(describe(definition), null, 2) + "\n");
    return;
  }
  if (process.env.DELAYBRIDGE_PLUGIN !== "sink") {
    explain(definition);
    process.exitCode = 2;
    return;
  }
  // Standard output is for the one line that the host waits for.
  globalThis.console = new Console(process.stderr, process.stderr);
  process.on("SIGINT", () => {}); // Ctrl-C is the host's to handle
  run(definition).catch((err) => {
    process.stderr.write((err.stack ?? err) + "\n");
    process.exit(1);
  });
}

async function run(definition) {
  if (!(process.env.PLUGIN_PROTOCOL_VERSIONS ?? String(PROTOCOL)).split(",").includes(String(PROTOCOL))) {
    throw new Error(`this plugin speaks version ${PROTOCOL} of the protocol, and the host does not`);
  }
  const service = new Service(definition);
  const server = new grpc.Server({ "grpc.max_receive_message_length": MAX_BYTES, "grpc.max_send_message_length": MAX_BYTES });
  const directory = fs.mkdtempSync(path.join(process.env.PLUGIN_UNIX_SOCKET_DIR || os.tmpdir(), "plugin"));
  const socket = path.join(directory, "s");
  let ending = false;
  const end = async () => {
    if (ending) return;
    ending = true;
    await service.close(DRAIN_MS);
    server.forceShutdown();
    fs.rmSync(directory, { recursive: true, force: true });
    process.exit(0); // timers and sockets of a client library must not keep the process
  };
  server.addService(sinkService(), service.calls());
  server.addService(healthService, { Check: (call, done) => done(null, SERVING) });
  server.addService(controllerService, { Shutdown: (call, done) => { done(null, NOTHING); setTimeout(end, 50); } });
  const { credentials, certificate } = serverCredentials();
  await new Promise((resolve, reject) => {
    server.bindAsync("unix:" + socket, credentials, (err) => (err ? reject(err) : resolve()));
  });
  process.on("SIGTERM", end);
  const parent = process.ppid;
  setInterval(() => { if (process.ppid !== parent) end(); }, 500); // the host is gone, however it went
  process.stdout.write(`1|${PROTOCOL}|unix|${socket}|grpc|${certificate}\n`);
}

// The calls of the protocol.

class Service {
  constructor(definition) {
    Object.assign(this, { definition, sink: null, closed: false, underWay: new Set() });
  }

  calls() {
    // A call that throws is the plugin's fault, and must not end the process.
    const unary = (handle) => (call, done) => {
      Promise.resolve().then(() => handle.call(this, call.request, call)).then(
        (response) => done(null, response),
        (err) => {
          log.error("a call failed in a way that it does not know", { error: String(err?.stack ?? err) });
          done({ code: grpc.status.INTERNAL, message: text(err) });
        });
    };
    return {
      Describe: unary(() => describe(this.definition)),
      Configure: unary(this.configure), Check: unary(this.check), Deliver: unary(this.deliver),
      Health: unary(this.health), Close: unary(this.closeCall),
    };
  }

  async configure(request) {
    try {
      this.sink = await this.definition.open(JSON.parse(String(request.config_json ?? "{}")));
      return {};
    } catch (err) {
      return { faults: err instanceof Faults ? err.faults.map(fault) : [fault(err)] };
    }
  }

  async check(request) {
    return { faults: await Promise.all(request.messages.map(async (m) => {
      try {
        await this.sink.check(message(m));
        return {};
      } catch (err) {
        return fault(err);
      }
    })) };
  }

  async deliver(request, call) {
    if (!this.sink || this.closed) {
      return { trouble: { outcome: "OUTCOME_RETRY", error: this.closed ? "the plugin is closed" : "the plugin has no configuration yet" } };
    }
    const work = this.send(request, call);
    this.underWay.add(work);
    try {
      return await work;
    } finally {
      this.underWay.delete(work);
    }
  }

  async send(request, call) {
    const ended = new AbortController();
    call.on("cancelled", () => ended.abort());
    let verdicts;
    try {
      verdicts = await this.sink.deliver(request.messages.map(message), ended.signal);
    } catch (err) {
      if (!(err instanceof DeliveryError)) log.error("deliver failed in a way that it does not know", { error: String(err?.stack ?? err) });
      return { trouble: result("", err) };
    }
    verdicts ??= request.messages.map(() => null);
    if (verdicts.length !== request.messages.length) {
      const reason = `deliver returned ${verdicts.length} verdicts for ${request.messages.length} messages`;
      log.error(reason);
      return { trouble: result("", new Unknown(reason)) };
    }
    return { results: request.messages.map((m, n) => result(m.id, verdicts[n])) };
  }

  async health() {
    try {
      await this.sink.health();
      return {};
    } catch (err) {
      return { error: text(err) };
    }
  }

  async closeCall(request, call) {
    const deadline = call.getDeadline();
    const left = deadline instanceof Date ? deadline - Date.now() : deadline - Date.now();
    await this.close(Number.isFinite(left) ? Math.max(left - 200, 0) : DRAIN_MS);
    return {};
  }

  async close(timeout) {
    if (this.closed) return;
    this.closed = true;
    let timer;
    const late = new Promise((resolve) => { timer = setTimeout(resolve, timeout); });
    await Promise.race([Promise.allSettled([...this.underWay]), late]);
    clearTimeout(timer);
    try {
      await this.sink?.close();
    } catch (err) {
      log.error("close failed", { error: String(err?.stack ?? err) });
    }
  }
}

function message(m) {
  return {
    id: m.id ?? "", topic: m.topic ?? "", key: m.key ?? null, body: m.body ?? null,
    headers: m.headers.map((h) => ({ name: h.name ?? "", value: h.value ?? null })), options: { ...m.options },
    deliverAtMs: m.deliver_at_ms ?? 0, expiresAtMs: m.expires_at_ms ?? 0, priority: m.priority ?? 0, attempt: m.attempt ?? 0,
  };
}

function result(id, verdict) {
  if (verdict === null || verdict === undefined) return { id, outcome: "OUTCOME_CONFIRMED" };
  return { id, outcome: verdict.outcome ?? "OUTCOME_UNKNOWN", after_ms: Math.round(verdict.after ?? 0), error: text(verdict) };
}

function fault(err) {
  if (err instanceof Invalid) return { field: text(err.field || ""), reason: text(err.reason || err), too_large: err.tooLarge };
  return { reason: text(err) };
}

/** What an error says, cut so that a reply with many of them fits. */
function text(err) {
  return Buffer.from(String(err?.message || err).slice(0, MAX_TEXT)).toString(); // no half of a character
}

function describe(d) {
  return {
    name: d.name, version: d.version, description: d.description ?? "", checks: d.checks ?? false, tells_health: d.tellsHealth ?? false,
    max_batch: d.maxBatch ?? 0, max_batch_bytes: d.maxBatchBytes ?? 0,
    settings: (d.settings ?? []).map((s) => ({
      name: s.name, description: s.description, default_value: s.default ?? "", required: s.required ?? false, secret: s.secret ?? false,
    })),
  };
}

// The server.

function sinkService() {
  const definition = protoLoader.loadSync(path.join(__dirname, "sink.proto"), {
    keepCase: true, longs: Number, enums: String, arrays: true, objects: true,
  });
  return definition["delaybridge.sink.v1.SinkService"];
}

// Two services of a call each, whose messages are so small that they are written by hand.
const raw = (name) => ({
  path: name, requestStream: false, responseStream: false,
  requestSerialize: (b) => b, requestDeserialize: (b) => b, responseSerialize: (b) => b, responseDeserialize: (b) => b,
});
const SERVING = Buffer.from([8, 1]); // HealthCheckResponse{status: SERVING}
const NOTHING = Buffer.alloc(0);
const healthService = { Check: raw("/grpc.health.v1.Health/Check") }; // whether the process answers
const controllerService = { Shutdown: raw("/plugin.GRPCController/Shutdown") }; // the host asks the process to end

function serverCredentials() {
  const client = process.env.PLUGIN_CLIENT_CERT;
  if (!client) return { credentials: grpc.ServerCredentials.createInsecure(), certificate: "" };
  const { key, der } = newCertificate();
  const pem = `-----BEGIN CERTIFICATE-----\n${der.toString("base64").match(/.{1,64}/g).join("\n")}\n-----END CERTIFICATE-----\n`;
  const pair = { private_key: Buffer.from(key), cert_chain: Buffer.from(pem) };
  return {
    credentials: grpc.ServerCredentials.createSsl(Buffer.from(client), [pair], true),
    certificate: der.toString("base64").replace(/=+$/, ""),
  };
}

/** A certificate for localhost, signed by itself, with a new key: what mutual TLS with the host needs. */
function newCertificate() {
  const { publicKey, privateKey } = crypto.generateKeyPairSync("ec", { namedCurve: "P-256" });
  const der = (tag, ...parts) => {
    const body = Buffer.concat(parts);
    const size = body.length < 128 ? [body.length] : body.length < 256 ? [0x81, body.length] : [0x82, body.length >> 8, body.length & 255];
    return Buffer.concat([Buffer.from([tag, ...size]), body]);
  };
  const sequence = (...parts) => der(0x30, ...parts);
  const oid = (...bytes) => der(0x06, Buffer.from(bytes));
  const octets = (part) => der(0x04, part);
  const time = (at) => der(0x17, Buffer.from(at.toISOString().replace(/[-:T]/g, "").slice(2, 14) + "Z"));
  const yes = der(0x01, Buffer.from([255]));
  const algorithm = sequence(oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02)); // ecdsa-with-SHA256
  const name = sequence(der(0x31, sequence(oid(0x55, 0x04, 0x03), der(0x0c, Buffer.from("localhost")))));
  const serial = crypto.randomBytes(16);
  serial[0] = (serial[0] & 0x7f) | 0x40; // positive, and no leading zero
  const now = Date.now();
  const extensions = sequence(
    sequence(oid(0x55, 0x1d, 0x13), yes, octets(sequence(yes))), // basicConstraints: CA
    sequence(oid(0x55, 0x1d, 0x11), octets(sequence(der(0x82, Buffer.from("localhost"))))), // subjectAltName
  );
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))), der(0x02, serial), algorithm, name,
    sequence(time(new Date(now - 60_000)), time(new Date(now + 3650 * 86_400_000))), name,
    publicKey.export({ type: "spki", format: "der" }), der(0xa3, extensions),
  );
  const signature = crypto.sign("sha256", body, privateKey);
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }),
    der: sequence(body, algorithm, der(0x03, Buffer.from([0]), signature)),
  };
}

function explain(d) {
  const lines = [
    `${d.name} ${d.version}: ${d.description ?? ""}`,
    "This is a plugin of delaybridge, which starts it by itself. In its configuration:",
    "", "  sinks:", `    ${d.name}:`, "      type: plugin", "      config:", `        command: ${path.resolve(process.argv[1])}`, "        config:",
  ];
  for (const s of d.settings ?? []) lines.push(`          ${s.name}: ${s.default || "..."}  # ${s.description}`);
  process.stderr.write(lines.join("\n") + "\n");
}

module.exports = { serve, log, Retry, Unknown, Permanent, Blocked, TopicBlocked, Invalid, Faults };
