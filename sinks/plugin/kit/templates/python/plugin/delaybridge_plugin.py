"""Serves a sink to delaybridge. Part of the template: authors need not touch it.

A sink is an object with these methods; the last three are optional:

    deliver(batch, timeout)  sends a list of Message. Returns None if the broker
                             has confirmed all of them, or a list with, for each
                             message, None (confirmed) or one of the errors below.
                             To raise one of the errors says it of the whole batch.
                             Called from many threads at once; timeout is how many
                             seconds there are.
    close()                  lets go of the broker. No deliver is under way then.
    check(message)           raises Invalid for what can never be delivered. Quick,
                             as a producer waits. Called from many threads at once.
    health()                 raises an error if messages could not be delivered now.

Whatever else deliver raises counts as Unknown: the message is tried again, and
counted as a possible duplicate.

    serve(Definition(name="mine", version="0.1.0", open=open_sink, ...))

is all that the main program has to call. open_sink(config) gets the
configuration as a dict and returns the sink, or raises Invalid, or Faults for
several. It does not fail because the broker is down: deliver tells that.

Logging: use the logging module. print() goes to the host's log as well.
"""

import dataclasses
import datetime
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from concurrent import futures
from typing import Callable, Dict, List, Optional, Tuple

import grpc
from google.protobuf import json_format

import sink_pb2 as pb

PROTOCOL = 1
MAX_BYTES = 16 << 20  # of one call; the host sends 3 MiB at most
WORKERS = 256  # calls at once; further ones wait
CHECKERS = 32  # messages that are checked at once
MAX_TEXT = 1000  # characters of an error: a reply has hundreds of them
DRAIN = 2.0  # seconds that calls under way have at the end


# What authors use.


@dataclasses.dataclass
class Message:
    """What is to be delivered. None is no key, no body, no value, which is not the same as an empty one."""

    id: str
    topic: str
    key: Optional[bytes]
    body: Optional[bytes]
    headers: List[Tuple[str, Optional[bytes]]]  # all that are to be sent, in order
    options: Dict[str, str]
    deliver_at_ms: int
    expires_at_ms: int  # 0 is never
    priority: int  # 0 to 9, 9 is the most urgent
    attempt: int  # from 1


class DeliveryError(Exception):
    """Why a message was not confirmed. after is how many seconds the broker asked us to wait, if it did; with Retry and Blocked."""

    outcome = pb.OUTCOME_UNKNOWN

    def __init__(self, reason, after: float = 0):
        super().__init__(reason)
        self.after = after


class Retry(DeliveryError):
    """Not sent, but it may work later."""

    outcome = pb.OUTCOME_RETRY


class Unknown(DeliveryError):
    """It may have been sent: a time-out, or a connection lost after writing."""


class Permanent(DeliveryError):
    """This message can never be sent. It becomes a dead letter."""

    outcome = pb.OUTCOME_PERMANENT


class Blocked(DeliveryError):
    """The broker refuses everything until an operator acts: login, configuration. The sink pauses."""

    outcome = pb.OUTCOME_BLOCKED


class TopicBlocked(DeliveryError):
    """As Blocked, but for the topic of this message only."""

    outcome = pb.OUTCOME_TOPIC_BLOCKED


class Invalid(Exception):
    """What is wrong with a setting or a message. field is a path such as "tls.ca" or "hosts[0]"; empty: all."""

    def __init__(self, field: str, reason: str, too_large: bool = False):
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field, self.reason, self.too_large = field, reason, too_large


class Faults(Exception):
    """Several Invalid at once."""

    def __init__(self, faults: List[Invalid]):
        super().__init__("; ".join(map(str, faults)))
        self.faults = faults


@dataclasses.dataclass
class Setting:
    """One key of the configuration, for documentation and tools."""

    name: str
    description: str
    default: str = ""
    required: bool = False
    secret: bool = False  # never printed


@dataclasses.dataclass
class Definition:
    """What the plugin is."""

    name: str
    version: str
    open: Callable[[dict], object]
    description: str = ""
    settings: List[Setting] = dataclasses.field(default_factory=list)
    checks: bool = False  # the sink has check
    tells_health: bool = False  # the sink has health
    max_batch: int = 0  # messages of one deliver; 0 is the host's bound
    max_batch_bytes: int = 0


def serve(definition: Definition) -> None:
    """Serves until the host ends it, and ends the process."""
    if "--describe" in sys.argv[1:]:
        print(json_format.MessageToJson(_describe(definition), preserving_proto_field_name=True))
        sys.exit(0)
    if os.environ.get("DELAYBRIDGE_PLUGIN") != "sink":
        _explain(definition)
        sys.exit(2)
    out = _claim_stdout()
    _log_to_stderr()
    if str(PROTOCOL) not in os.environ.get("PLUGIN_PROTOCOL_VERSIONS", str(PROTOCOL)).split(","):
        sys.exit(f"this plugin speaks version {PROTOCOL} of the protocol, and the host does not")
    if os.environ.get("PLUGIN_CLIENT_CERT"):
        sys.exit("gRPC for Python does not take the certificate that the host would show: set mtls: false in the host's configuration")
    service = _Service(definition)
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=WORKERS),
        options=[
            ("grpc.max_receive_message_length", MAX_BYTES),
            ("grpc.max_send_message_length", MAX_BYTES),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 1000),
        ],
    )
    ending = threading.Event()
    server.add_generic_rpc_handlers((_sink_handler(service), _health_handler(), _controller_handler(ending)))
    directory = tempfile.mkdtemp(prefix="plugin", dir=os.environ.get("PLUGIN_UNIX_SOCKET_DIR"))
    path = os.path.join(directory, "s")
    server.add_insecure_port("unix:" + path)
    server.start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the host's to handle
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    threading.Thread(target=_watch_parent, args=(os.getppid(), ending), daemon=True).start()
    os.write(out, f"1|{PROTOCOL}|unix|{path}|grpc|\n".encode())
    ending.wait()
    service.close(DRAIN)
    server.stop(0)
    for remove, what in ((os.unlink, path), (os.rmdir, directory)):
        try:
            remove(what)
        except OSError:
            pass
    logging.shutdown()
    os._exit(0)  # threads that hang in a client library must not keep the process


# The calls of the protocol.


class _Service:
    def __init__(self, definition: Definition):
        self._definition = definition
        self._checkers = futures.ThreadPoolExecutor(max_workers=CHECKERS)
        self._sink = None
        self._closed = False
        self._under_way = 0
        self._changed = threading.Condition()

    def describe(self, request, context):
        return _describe(self._definition)

    def configure(self, request, context):
        try:
            config = json.loads(request.config_json or b"{}")
            if not isinstance(config, dict):
                raise Invalid("", "must be an object")
            sink = self._definition.open(config)
        except Faults as e:
            return pb.ConfigureResponse(faults=[_fault(f) for f in e.faults])
        except Exception as e:
            return pb.ConfigureResponse(faults=[_fault(e)])
        with self._changed:
            self._sink = sink
        return pb.ConfigureResponse()

    def check(self, request, context):
        def one(m):
            try:
                if context.is_active():  # else nobody waits any longer
                    self._sink.check(_message(m))
                return pb.Fault()
            except Exception as e:
                return _fault(e)

        return pb.CheckResponse(faults=self._checkers.map(one, request.messages))

    def deliver(self, request, context):
        with self._changed:
            if self._sink is None or self._closed:
                reason = "the plugin is closed" if self._closed else "the plugin has no configuration yet"
                return pb.DeliverResponse(trouble=pb.Result(outcome=pb.OUTCOME_RETRY, error=reason))
            self._under_way += 1
        try:
            return self._deliver(request, context)
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def _deliver(self, request, context):
        timeout = context.time_remaining()
        try:
            verdicts = self._sink.deliver([_message(m) for m in request.messages], 30.0 if timeout is None else timeout)
        except Exception as e:
            if not isinstance(e, DeliveryError):
                logging.exception("deliver failed in a way that it does not know")
            return pb.DeliverResponse(trouble=_result("", e))
        if verdicts is None:
            verdicts = [None] * len(request.messages)
        if len(verdicts) != len(request.messages):
            reason = f"deliver returned {len(verdicts)} verdicts for {len(request.messages)} messages"
            logging.error(reason)
            return pb.DeliverResponse(trouble=_result("", Unknown(reason)))
        return pb.DeliverResponse(results=[_result(m.id, v) for m, v in zip(request.messages, verdicts)])

    def health(self, request, context):
        try:
            self._sink.health()
        except Exception as e:
            return pb.HealthResponse(error=_text(e))
        return pb.HealthResponse()

    def close_call(self, request, context):
        left = context.time_remaining()
        self.close(DRAIN if left is None else max(left - 0.2, 0.0))
        return pb.CloseResponse()

    def close(self, timeout: float) -> None:
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.wait_for(lambda: self._under_way == 0, timeout)
        if self._sink is None:
            return
        try:
            self._sink.close()
        except Exception:
            logging.exception("close failed")


def _describe(d: Definition) -> pb.DescribeResponse:
    return pb.DescribeResponse(
        name=d.name,
        version=d.version,
        description=d.description,
        checks=d.checks,
        tells_health=d.tells_health,
        max_batch=d.max_batch,
        max_batch_bytes=d.max_batch_bytes,
        settings=[
            pb.Setting(name=s.name, description=s.description, default_value=s.default, required=s.required, secret=s.secret)
            for s in d.settings
        ],
    )


def _message(m) -> Message:
    return Message(
        id=m.id,
        topic=m.topic,
        key=m.key if m.HasField("key") else None,
        body=m.body if m.HasField("body") else None,
        headers=[(h.name, h.value if h.HasField("value") else None) for h in m.headers],
        options=dict(m.options),
        deliver_at_ms=m.deliver_at_ms,
        expires_at_ms=m.expires_at_ms,
        priority=m.priority,
        attempt=m.attempt,
    )


def _result(id: str, verdict) -> pb.Result:
    if verdict is None:
        return pb.Result(id=id, outcome=pb.OUTCOME_CONFIRMED)
    return pb.Result(
        id=id,
        outcome=getattr(verdict, "outcome", pb.OUTCOME_UNKNOWN),
        after_ms=int(getattr(verdict, "after", 0) * 1000),
        error=_text(verdict),
    )


def _fault(e: Exception) -> pb.Fault:
    if isinstance(e, Invalid):
        return pb.Fault(field=_text(e.field), reason=_text(e.reason or e), too_large=e.too_large)
    return pb.Fault(reason=_text(e))


def _text(e) -> str:
    """What e says, cut so that a reply with many of them fits."""
    text = str(e) or ("" if isinstance(e, str) else type(e).__name__)
    return text[:MAX_TEXT].encode("utf-8", "replace").decode()


# The server.


def _sink_handler(service: _Service):
    calls = {
        "Describe": (service.describe, pb.DescribeRequest),
        "Configure": (service.configure, pb.ConfigureRequest),
        "Check": (service.check, pb.CheckRequest),
        "Deliver": (service.deliver, pb.DeliverRequest),
        "Health": (service.health, pb.HealthRequest),
        "Close": (service.close_call, pb.CloseRequest),
    }
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            call, request_deserializer=request.FromString, response_serializer=lambda m: m.SerializeToString()
        )
        for name, (call, request) in calls.items()
    }
    return grpc.method_handlers_generic_handler("delaybridge.sink.v1.SinkService", handlers)


def _health_handler():
    """gRPC's own health service, which tells whether the process answers."""
    serving = b"\x08\x01"  # HealthCheckResponse{status: SERVING}
    check = grpc.unary_unary_rpc_method_handler(lambda request, context: serving)
    return grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check})


def _controller_handler(ending: threading.Event):
    """By this the host asks the process to end."""

    def shutdown(request, context):
        threading.Timer(0.05, ending.set).start()  # after the reply
        return b""

    return grpc.method_handlers_generic_handler("plugin.GRPCController", {"Shutdown": grpc.unary_unary_rpc_method_handler(shutdown)})


# The process.


def _claim_stdout() -> int:
    """Keeps standard output for the one line that the host waits for; what is printed goes to standard error."""
    out = os.dup(1)
    os.dup2(2, 1)
    return out


class _HostFormat(logging.Formatter):
    """One JSON object a line, which keeps its level on its way through the host."""

    LEVELS = ((logging.ERROR, "error"), (logging.WARNING, "warn"), (logging.INFO, "info"))

    def format(self, record):
        level = next((name for least, name in self.LEVELS if record.levelno >= least), "debug")
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        now = datetime.datetime.fromtimestamp(record.created, datetime.timezone.utc)
        return json.dumps({"@level": level, "@message": text, "@timestamp": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "logger": record.name})


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_HostFormat())
    logging.basicConfig(level=logging.DEBUG, handlers=[handler], force=True)


def _watch_parent(parent: int, ending: threading.Event) -> None:
    """Ends the process when the host is gone, however it went."""
    while os.getppid() == parent:
        time.sleep(0.5)
    ending.set()


def _explain(d: Definition) -> None:
    program = os.path.abspath(sys.argv[0])
    lines = [
        f"{d.name} {d.version}: {d.description}",
        "This is a plugin of delaybridge, which starts it by itself. In its configuration:",
        "",
        "  sinks:",
        f"    {d.name}:",
        "      type: plugin",
        "      config:",
        f"        command: {program}",
        "        mtls: false",
        "        config:",
    ]
    lines += [f"          {s.name}: {s.default or '...'}  # {s.description}" for s in d.settings]
    print("\n".join(lines), file=sys.stderr)
