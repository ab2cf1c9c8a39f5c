"""Sends batches in NDJSON to a bridge, with messages made from its description:
fuzz_ndjson.py URL SEED BATCHES. Each line must have the result that its message has
alone."""

import json
import sys

import requests
import schemathesis
from hypothesis import HealthCheck, given, seed, settings, strategies as st
from schemathesis import GenerationMode

from schemathesis_hooks import complete_body
from steps import done, expect


def batches(url):
    operation = schemathesis.openapi.from_url(url + "/openapi.yaml")["/v1/messages"]["POST"]
    good = operation.as_strategy(generation_mode=GenerationMode.POSITIVE).map(good_line)
    bad = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE).filter(is_json).map(lambda case: line(case.body))
    junk = st.binary(max_size=20).filter(lambda text: b"\n" not in text)
    return st.lists(st.one_of(good, good, bad, junk), min_size=1, max_size=4)


def good_line(case):
    case.body.pop("id", None)  # a repeat would have another result
    complete_body(case.body)
    return line(case.body)


def is_json(case):
    return isinstance(case.body, (dict, list, str, int, float, bool, type(None)))


def line(message):
    return json.dumps(message).encode()


class Bridge:
    def __init__(self, url):
        self.url, self.session, self.accepted = url, requests.Session(), 0

    def post(self, path, form, body):
        return self.session.post(self.url + path, data=body, headers={"Content-Type": form}, timeout=30)

    def check(self, lines):
        text = b"\n".join(lines) + b"\n"
        answer = self.post("/v1/messages/batch", "application/x-ndjson", text)
        if text.lstrip(b" \t\r\n")[:1] in (b"[", b'"'):  # JSON, but not an object per line
            expect(f"the answer to {text}", (answer.status_code, answer.json()["code"]), (400, "malformed"))
            return
        expect(f"the answer to {text}", (answer.status_code, answer.headers["Content-Type"]), (200, "application/x-ndjson"))
        results = [json.loads(result) for result in answer.content.removesuffix(b"\n").split(b"\n")]
        expect(f"the number of results of {text}", len(results), len(lines))
        for sent, result in zip(lines, results):
            alone = self.post("/v1/messages", "application/json", sent)
            want = alone.json()
            expect(f"the result of {sent}", *([x.get(name) for name in ("code", "field", "sink", "state")] for x in (result, want)))
            expect(f"the status of {sent}", result["status"], alone.status_code)
            self.accepted += result["status"] == 201


def main(url, number, examples):
    bridge = Bridge(url)

    @seed(int(number))
    @settings(max_examples=int(examples), database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(batches(url))
    def property(lines):
        bridge.check(lines)

    property()
    if bridge.accepted < int(examples) / 4:
        raise SystemExit(f"only {bridge.accepted} messages of {examples} batches were accepted")
    done("ndjson")


main(*sys.argv[1:])
