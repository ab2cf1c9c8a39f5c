"""Uses the client that grpcio-tools has generated: use_grpc.py ADDRESS."""

import sys
from datetime import datetime, timedelta, timezone

import grpc
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from grpc_status import rpc_status

from delaybridge.v1.bridge_pb2 import (
    CancelRequest, GetRequest, Header, ListRequest, Message, PublishRequest, RedriveRequest,
    Ref, RescheduleRequest, State, StatsRequest,
)
from delaybridge.v1.bridge_pb2_grpc import BridgeServiceStub
from steps import done, expect, until

HOUR = timedelta(hours=1)


def publish(bridge):
    deliver_at = datetime.now(timezone.utc).replace(microsecond=0) + HOUR
    message = Message(id="one", sink="console", topic="reminders", key=b"42", body=b"pay",
                      headers=[Header(name="trace", value=b"a1")], deliver_at=deliver_at)
    [result] = bridge.Publish(PublishRequest(messages=[message])).results
    expect("the result", (result.id, result.state, result.duplicate), ("one", State.STATE_SCHEDULED, False))
    [again] = bridge.Publish(PublishRequest(messages=[message])).results
    expect("a repeat", again.duplicate, True)

    entry = bridge.Get(GetRequest(ref=Ref(id="one", key=b"42"))).entry
    expect("the stored message", entry.message, message)
    expect("its time", entry.due.ToDatetime(timezone.utc), deliver_at)


def batch(bridge):
    messages = [Message(sink="console", topic="batch", body=str(n).encode(), delay=HOUR) for n in range(3)]
    messages[1].ClearField("delay")
    first, refused, last = bridge.Publish(PublishRequest(messages=messages)).results
    expect("the refusal", (refused.error.code, refused.error.field), ("invalid", "deliver_at"))
    for result, body in (first, b"0"), (last, b"2"):
        expect("error", result.HasField("error"), False)
        expect("the body", bridge.Get(GetRequest(ref=Ref(id=result.id))).entry.message.body, body)


def list_pages(bridge):
    sent = [f"listed-{n}" for n in range(4)]
    bridge.Publish(PublishRequest(messages=[Message(id=id, sink="console", topic="list", delay=HOUR) for id in sent]))
    listed, token = [], None
    while token != "":
        page = bridge.List(ListRequest(topic="list", page_size=1, page_token=token))
        listed += [entry.message.id for entry in page.entries]
        token = page.next_page_token
    expect("what the pages have", sorted(listed), sent)


def change(bridge):
    ref = Ref(id="one", sink="console", key=b"42")
    moved = bridge.Reschedule(RescheduleRequest(ref=ref, delay=2 * HOUR)).receipt
    expect("the state", moved.state, State.STATE_SCHEDULED)
    entry = bridge.Get(GetRequest(ref=ref)).entry
    expect("the time", entry.due, moved.deliver_at)
    expect("later", entry.due.ToDatetime(timezone.utc) > datetime.now(timezone.utc) + HOUR, True)
    done("reschedule")

    receipt = bridge.Cancel(CancelRequest(ref=ref)).receipt
    expect("the receipt", (receipt.state, receipt.may_have_been_sent), (State.STATE_CANCELLED, False))
    done("cancel")


def redrive(bridge):
    bridge.Publish(PublishRequest(messages=[
        Message(id="dead", sink="unreachable", topic="queue", delay=timedelta(), ttl=timedelta(milliseconds=1)),
    ]))
    ref = Ref(id="dead", sink="unreachable")
    dead = until("a dead letter", lambda: bridge.List(ListRequest(states=[State.STATE_EXPIRED])).entries)
    expect("the dead letter", (dead[0].message.id, dead[0].state), ("dead", State.STATE_EXPIRED))
    receipt = bridge.Redrive(RedriveRequest(ref=ref)).receipt
    expect("the state", receipt.state, State.STATE_SCHEDULED)
    expect("no longer dead", len(bridge.List(ListRequest(states=[State.STATE_EXPIRED])).entries), 0)

def stats(bridge):
    sinks = {s.sink: s for s in bridge.Stats(StatsRequest()).sinks}
    expect("the sinks", sorted(sinks), ["console", "unreachable"])
    console = sinks["console"]
    expect("the counts", (console.scheduled, console.since_start.accepted), (6, 7))


def error_of(call, *args, **kwargs):
    """Returns the code of the error, its ErrorInfo and the path in its BadRequest."""
    try:
        call(*args, **kwargs)
    except grpc.RpcError as error:
        info, path = ErrorInfo(), ""
        for detail in rpc_status.from_call(error).details:
            bad = BadRequest()
            if detail.Unpack(bad):
                [violation] = bad.field_violations
                path = violation.field
            detail.Unpack(info)
        expect("the domain", info.domain, "delaybridge")
        return error.code(), info, path
    raise SystemExit("there was no error")


def errors(bridge):
    code, info, path = error_of(bridge.Publish, PublishRequest(messages=[Message(sink="console", delay=HOUR)]))
    expect("invalid", (code, info.reason, path), (grpc.StatusCode.INVALID_ARGUMENT, "invalid", "messages[0].topic"))
    expect("its metadata", dict(info.metadata), {"field": "messages[0].topic", "stored": "false"})
    done("error invalid")

    code, info, path = error_of(bridge.Get, GetRequest(ref=Ref(id="not an id")))
    expect("invalid", (code, info.reason, path), (grpc.StatusCode.INVALID_ARGUMENT, "invalid", "ref.id"))
    expect("field", info.metadata["field"], "ref.id")
    done("error invalid ref")
    for step, want, call, request in [
        ("bad_cursor", grpc.StatusCode.INVALID_ARGUMENT, bridge.List, ListRequest(page_token="other")),
        ("not_found", grpc.StatusCode.NOT_FOUND, bridge.Get, GetRequest(ref=Ref(id="nothing"))),
        ("conflict", grpc.StatusCode.ALREADY_EXISTS, bridge.Publish,
         PublishRequest(messages=[Message(id="listed-0", sink="console", topic="other", delay=HOUR)])),
        ("too_late", grpc.StatusCode.FAILED_PRECONDITION, bridge.Cancel, CancelRequest(ref=Ref(id="one", key=b"42"))),
        ("too_large", grpc.StatusCode.RESOURCE_EXHAUSTED, bridge.Publish,
         PublishRequest(messages=[Message(sink="console", topic="large", delay=HOUR, body=bytes(2 << 20))])),
    ]:
        code, info, _ = error_of(call, request)
        expect(step, (code, info.reason), (want, step))
        done("error " + step)

    for key in b"1", b"2":
        bridge.Publish(PublishRequest(messages=[Message(id="two", sink="console", topic="two", key=key, delay=HOUR)]))
    code, info, _ = error_of(bridge.Get, GetRequest(ref=Ref(id="two")))
    expect("ambiguous", (code, info.reason), (grpc.StatusCode.FAILED_PRECONDITION, "ambiguous"))
    done("error ambiguous")


def main(address):
    with grpc.insecure_channel(address) as channel:
        bridge = BridgeServiceStub(channel)
        for step in publish, batch, list_pages, change, redrive, stats, errors:
            step(bridge)
            done(step.__name__)


main(sys.argv[1])
