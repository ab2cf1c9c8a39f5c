"""Hooks of schemathesis.toml."""

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.openapi.checks import RejectedPositiveData

EXCLUSIVE = [("delay", "deliver_at"), ("ttl", "expires_at"), ("key", "key_base64"), ("body_base64", "body"),
             ("Delaybridge-Delay", "Delaybridge-Deliver-At"), ("Delaybridge-Ttl", "Delaybridge-Expires-At")]
COMMON = {"id": ["one", "two"], "sink": ["console", "unreachable"], "delay": ["0s", "90s", "P1DT2H"],
          "ttl": ["1ms", "P2D"], "Delaybridge-Delay": ["0s", "90s"], "Delaybridge-Ttl": ["2d"]}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Makes good requests keep rules that the description states in words, and use the
    same few values, so that more of them are accepted and find what is stored."""
    if not case.meta.generation.mode.is_positive:
        return
    complete(case.path_parameters)
    complete(case.query)
    for body in case.body if isinstance(case.body, list) else [case.body]:
        if isinstance(body, dict):
            complete_body(body)
    if case.operation.path.startswith("/v1/publish/"):
        complete(case.headers)
        if "Delaybridge-Deliver-At" not in case.headers:
            case.headers.setdefault("Delaybridge-Delay", "1h")
        case.headers.pop("Delaybridge-Priority", None)  # in changed headers, its text is taken for a bad integer


def complete_body(body):
    if "topic" in body:
        body.setdefault("sink", "console")
    complete(body)
    if "deliver_at" not in body:
        body.setdefault("delay", "1h")


def complete(part):
    for one, other in EXCLUSIVE:
        if one in part:
            part.pop(other, None)
    for name, values in COMMON.items():
        value = part.get(name)
        if isinstance(value, str) and len(value) < 20:  # longer ids are those of the bridge
            part[name] = ([value] + values)[len(value) % (1 + len(values))]


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Drops two kinds of findings that contradict the description."""
    if isinstance(failure, RejectedPositiveData) and response.status_code == 400:
        return not names_rule(response.json())
    if isinstance(failure, AcceptedNegativeData) and case.operation.path == "/v1/messages/batch":
        return all(result["status"] < 400 for result in response.json())  # each message has its own result
    return True


def names_rule(problem):
    """Tells whether a problem names a rule that the description states in words, as
    generators of clients can't read it as a type."""
    return problem["code"] == "bad_cursor" or problem["code"] == "invalid" and "field" in problem
