import base64
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "plugin"))

from delaybridge_plugin import Blocked, Faults, Invalid, Message, Permanent  # noqa: E402
from sink import open_sink  # noqa: E402


def message(topic="orders", body=b"hello", **other):
    fields = dict(id="1", key=None, headers=[("a", b"1"), ("a", None)], options={}, deliver_at_ms=0, expires_at_ms=0, priority=0, attempt=1)
    fields.update(other)
    return Message(topic=topic, body=body, **fields)


class SinkTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.sink = open_sink({"dir": self.dir.name, "max_body": 10})

    def lines(self, topic):
        with open(os.path.join(self.dir.name, topic + ".jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_delivers(self):
        self.assertEqual(self.sink.deliver([message(), message(body=None, key=b"")], 1), [None, None])
        first, second = self.lines("orders")
        self.assertEqual(base64.b64decode(first["body_base64"]), b"hello")
        self.assertEqual(first["headers"], [{"name": "a", "value_base64": "MQ=="}, {"name": "a", "value_base64": None}])
        self.assertEqual((first["key_base64"], second["key_base64"], second["body_base64"]), (None, "", None))

    def test_each_message_has_its_verdict(self):
        verdicts = self.sink.deliver([message(), message(topic="../etc"), message(body=b"too large a body"), message()], 1)
        self.assertEqual([type(v) for v in verdicts], [type(None), Permanent, Permanent, type(None)])
        self.assertEqual(len(self.lines("orders")), 2)

    def test_check_refuses(self):
        self.sink.check(message(options={"retry.max_attempts": "3"}))
        for bad, field in (
            (message(topic=".hidden"), "topic"),
            (message(topic="t" * 201), "topic"),
            (message(body=b"x" * 11), "body"),
            (message(options={"x": "1"}), "options.x"),
        ):
            with self.assertRaises(Invalid) as caught:
                self.sink.check(bad)
            self.assertEqual(caught.exception.field, field)

    def test_directory_gone(self):
        self.sink.health()
        os.rmdir(self.dir.name)
        self.addCleanup(os.makedirs, self.dir.name)
        self.assertIsInstance(self.sink.deliver([message()], 1)[0], Blocked)
        self.assertRaises(Blocked, self.sink.health)

    def test_settings(self):
        for config, fields in (
            ({}, ["dir"]),
            ({"dir": "relative"}, ["dir"]),
            ({"dir": 1}, ["dir"]),
            ({"dir": "/tmp", "sync": 1, "max_body": True}, ["sync", "max_body"]),
            ({"dir": "/tmp", "max_body": 0, "durr": "x"}, ["max_body", "durr"]),
        ):
            with self.assertRaises(Faults) as caught:
                open_sink(config)
            self.assertEqual([f.field for f in caught.exception.faults], fields)


if __name__ == "__main__":
    unittest.main()
