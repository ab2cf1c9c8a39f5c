"""Uses the client that openapi-python-client has generated: use_http.py URL."""

import base64
import sys
from datetime import datetime, timedelta, timezone

from delaybridge_client import Client
from delaybridge_client.api.accept import accept_batch, accept_message
from delaybridge_client.api.bridge import stats as get_stats
from delaybridge_client.api.dead import list_dead, redrive as redrive_one
from delaybridge_client.api.messages import cancel, get_message, list_messages, reschedule
from delaybridge_client.models import (
    BatchResult, ChangeReceipt, Entry, Header, Message, MessageOptions, Page, Problem, Receipt, Stats, When,
)
from delaybridge_client.types import UNSET
from steps import done, expect, until


def call(operation, want, **arguments):
    """Returns what the answer has, which must be of the wanted type."""
    response = operation.sync_detailed(**arguments)
    if type(response.parsed) is not want:
        raise SystemExit(f"{operation.__name__}: {response.status_code} {response.content!r} is no {want.__name__}")
    return response.parsed


def send(bridge):
    deliver_at = datetime.now(timezone(timedelta(hours=2))).replace(microsecond=0) + timedelta(hours=1)
    options = MessageOptions.from_dict({"retry.max_attempts": "3"})
    message = Message(id="order/1", sink="console", topic="reminders", key="42", body={"order": 42, "paid": False},
                      headers=[Header(name="trace", value="a1")], deliver_at=deliver_at, options=options, priority=7)
    receipt = call(accept_message, Receipt, client=bridge, body=message)
    expect("the receipt", (receipt.id, receipt.sink, receipt.state, receipt.deliver_at, receipt.duplicate),
           ("order/1", "console", "scheduled", deliver_at, UNSET))
    again = call(accept_message, Receipt, client=bridge, body=message)
    expect("a repeat", again.duplicate, True)


def get(bridge):
    entry = call(get_message, Entry, client=bridge, id="order/1", sink="console", key="42")
    expect("the entry", (entry.topic, entry.key, entry.body, entry.headers, entry.priority, entry.options.to_dict()),
           ("reminders", "42", '{"order": 42, "paid": false}'.replace(" ", ""), [Header(name="trace", value="a1")], 7,
            {"retry.max_attempts": "3"}))
    expect("attempts", (entry.attempt, entry.may_have_been_sent), (0, False))


def batch(bridge):
    messages = [Message(sink="console", topic="batch", body="text", delay="1h"), Message(topic="batch", body="text"),
                Message(sink="console", topic="batch", body_base64=base64.b64encode(b"\xff\x00").decode(), delay="1h")]
    response = accept_batch.sync_detailed(client=bridge, body=messages)
    results = response.parsed
    if type(results) is not list or any(type(r) is not BatchResult for r in results):
        raise SystemExit(f"batch: {response.status_code} {response.content!r}")
    expect("the results", [r.status for r in results], [201, 400, 201])
    expect("the refusal", (results[1].code, results[1].field, results[1].stored), ("invalid", "deliver_at", False))
    entries = [call(get_message, Entry, client=bridge, id=results[n].id) for n in (0, 2)]
    expect("text", (entries[0].body, entries[0].body_base64), ("text", UNSET))
    expect("bytes", (entries[1].body, base64.b64decode(entries[1].body_base64)), (UNSET, b"\xff\x00"))


def list_pages(bridge):
    sent = [f"listed-{n}" for n in range(4)]
    for id in sent:
        call(accept_message, Receipt, client=bridge, body=Message(id=id, sink="console", topic="list", delay="1h"))
    listed, cursor = [], UNSET
    while True:
        page = call(list_messages, Page, client=bridge, topic="list", limit=1, cursor=cursor)
        listed += [entry.id for entry in page.messages]
        if not (cursor := page.next_cursor):
            break
    expect("what the pages have", sorted(listed), sent)


def change(bridge):
    ref = {"client": bridge, "id": "order/1", "sink": "console", "key": "42"}
    moved = call(reschedule, ChangeReceipt, body=When(delay="2h"), **ref)
    expect("the time", call(get_message, Entry, **ref).due, moved.deliver_at)
    expect("later", moved.deliver_at > datetime.now(timezone.utc) + timedelta(hours=1), True)
    done("reschedule")
    gone = call(cancel, ChangeReceipt, **ref)
    expect("the receipt", (gone.state, gone.may_have_been_sent), ("cancelled", False))
    done("cancel")


def redrive(bridge):
    call(accept_message, Receipt, client=bridge,
         body=Message(id="dead", sink="unreachable", topic="queue", delay="0s", ttl="1ms"))
    [dead] = until("a dead letter", lambda: call(list_dead, Page, client=bridge).messages)
    expect("the dead letter", (dead.id, dead.state, dead.reason), ("dead", "expired", "expired"))
    receipt = call(redrive_one, ChangeReceipt, client=bridge, id="dead", sink="unreachable")
    expect("the state", receipt.state, "scheduled")
    expect("dead letters", call(list_dead, Page, client=bridge).messages, [])


def stats(bridge):
    sinks = {s.sink: s for s in call(get_stats, Stats, client=bridge).sinks}
    expect("the counts", (sinks["console"].scheduled, sinks["console"].since_start.accepted), (6, 7))
    expect("the dead letters", sinks["unreachable"].since_start.expired, 1)


def errors(bridge):
    def message(**members):
        return {"body": Message(sink="console", delay="1h", **members)}
    for key in "1", "2":
        call(accept_message, Receipt, client=bridge, **message(id="two", topic="two", key=key))
    for code, status, field, operation, arguments in [
        ("invalid", 400, "topic", accept_message, message(topic="")),
        ("invalid", 400, "limit", list_messages, {"limit": 0}),
        ("bad_cursor", 400, UNSET, list_messages, {"cursor": "other"}),
        ("not_found", 404, UNSET, get_message, {"id": "nothing"}),
        ("conflict", 409, UNSET, accept_message, message(id="listed-0", topic="other")),
        ("too_late", 409, UNSET, cancel, {"id": "order/1", "key": "42"}),
        ("ambiguous", 409, UNSET, get_message, {"id": "two"}),
        ("too_large", 413, "body", accept_message, message(topic="large", body="b" * (257 << 10))),
    ]:
        problem = call(operation, Problem, client=bridge, **arguments)
        expect(code, (problem.code, problem.status, problem.field), (code, status, field))
        expect("text for people", bool(problem.title and problem.detail), True)
        if code == "too_late":
            expect("what is known", (problem.state, problem.changed), ("cancelled", False))
        done(f"error {code} {field}" if field else f"error {code}")


def main(url):
    with Client(url) as bridge:
        for step in send, get, batch, list_pages, change, redrive, stats, errors:
            step(bridge)
            done(step.__name__)


main(sys.argv[1])
