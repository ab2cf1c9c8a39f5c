"""The {{name}} sink. It appends each message to DIR/TOPIC.jsonl, a line of JSON each.

Replace this by what talks to your broker. Keep the shape: settings are decoded
strictly, everything that can be refused is refused in check, and every error is
one of Retry, Unknown, Permanent, Blocked and TopicBlocked.
"""

import base64
import errno
import json
import os
import threading
from typing import Dict, List, Optional

from delaybridge_plugin import Blocked, Definition, DeliveryError, Faults, Invalid, Message, Permanent, Retry, Setting, TopicBlocked

MAX_TOPIC = 200  # bytes; file systems take names of 255


class Sink:
    """Only one process at a time may write to a directory."""

    def __init__(self, directory: str, sync: bool, max_body: int):
        self.directory, self.sync, self.max_body = directory, sync, max_body
        self.lock = threading.Lock()

    def check(self, message: Message) -> None:
        """Refuses what can never be delivered, while the producer is still there to hear it."""
        topic = message.topic
        if topic.startswith(".") or "/" in topic or "\0" in topic:
            raise Invalid("topic", "must not hold / or begin with a dot, as it becomes the name of a file")
        if len(topic.encode()) > MAX_TOPIC:
            raise Invalid("topic", f"must have at most {MAX_TOPIC} bytes, as it becomes the name of a file")
        if len(message.body or b"") > self.max_body:
            raise Invalid("body", f"is larger than max_body, {self.max_body} bytes", too_large=True)
        for name in message.options:
            if not name.startswith("retry."):  # those are delaybridge's own
                raise Invalid("options." + name, "is not known; this sink has no options")

    def deliver(self, batch: List[Message], timeout: float) -> List[Optional[DeliveryError]]:
        verdicts: List[Optional[DeliveryError]] = [None] * len(batch)
        topics: Dict[str, List[int]] = {}
        for n, message in enumerate(batch):
            try:
                self.check(message)  # limits may have changed since it was accepted
                topics.setdefault(message.topic, []).append(n)
            except Invalid as e:
                verdicts[n] = Permanent(str(e))
        for topic, numbers in topics.items():
            try:
                self.append(topic, b"".join(line(batch[n]) for n in numbers))
            except DeliveryError as e:
                for n in numbers:
                    verdicts[n] = e
        return verdicts

    def append(self, topic: str, data: bytes) -> None:
        """Returns when data is on the disk, and leaves no half of it there."""
        with self.lock:
            try:
                file = os.open(os.path.join(self.directory, topic + ".jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
            except OSError as e:
                raise before_writing(e)
            try:
                size = os.fstat(file).st_size
                try:
                    write_all(file, data)
                except OSError as e:
                    os.ftruncate(file, size)  # if this fails too, it is Unknown
                    raise Retry(e)
                if self.sync:
                    os.fsync(file)  # if this fails, nobody knows: Unknown
            finally:
                os.close(file)

    def health(self) -> None:
        if not os.access(self.directory, os.W_OK | os.X_OK):
            raise Blocked(f"can't write to {self.directory}")

    def close(self) -> None:
        pass  # no file stays open


def before_writing(e: OSError) -> DeliveryError:
    """Nothing has been written: is it worth another try by itself, or must somebody act?"""
    if e.errno in (errno.EISDIR, errno.ENXIO, errno.ELOOP):
        return TopicBlocked(e)  # something else has this topic's name
    if e.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR):
        return Blocked(e)
    return Retry(e)  # no space, too many open files, …


def write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def line(m: Message) -> bytes:
    """Bytes are in base64, as JSON has none; null is not the same as empty."""
    record = {
        "id": m.id,
        "key_base64": text(m.key),
        "headers": [{"name": name, "value_base64": text(value)} for name, value in m.headers],
        "body_base64": text(m.body),
    }
    return json.dumps(record).encode() + b"\n"


def text(data: Optional[bytes]) -> Optional[str]:
    return None if data is None else base64.b64encode(data).decode()


def open_sink(config: dict) -> Sink:
    """Looks at every setting before it opens anything, and reports all that is wrong at once."""
    config, faults = dict(config), []

    def take(name, kind, default):
        value = config.pop(name, default)
        # bool is an int to Python, but not to whoever writes the file
        if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
            faults.append(Invalid(name, f"must be {KINDS[kind]}"))
            return default
        return value

    directory = take("dir", str, "")
    sync = take("sync", bool, True)
    max_body = take("max_body", int, 1 << 20)
    if not faults and not os.path.isabs(directory):
        faults.append(Invalid("dir", "must be an absolute path, such as /var/lib/{{name}}"))
    if max_body < 1:
        faults.append(Invalid("max_body", "must be at least 1"))
    faults += [Invalid(name, f"is not known; known are {', '.join(s.name for s in SETTINGS)}") for name in config]
    if faults:
        raise Faults(faults)
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError:
        pass  # deliver says so, and goes on when it has been mended
    return Sink(directory, sync, max_body)


KINDS = {str: "text", bool: "true or false", int: "a whole number"}

SETTINGS = [
    Setting("dir", "absolute path of the directory that the files are in; made if missing", required=True),
    Setting("sync", "whether a message is on the disk before it counts as delivered", default="true"),
    Setting("max_body", "largest body, in bytes", default="1048576"),
]

definition = Definition(
    name="{{name}}",
    version="0.1.0",
    description="appends messages to a file of JSON lines for each topic",
    settings=SETTINGS,
    open=open_sink,
    checks=True,
    tells_health=True,
)
