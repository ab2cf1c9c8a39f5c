"""What the programs that use a generated client have in common."""

import time


def done(step):
    """Says that a step has worked; the test looks for it."""
    print("done:", step, flush=True)


def expect(what, got, want):
    if got != want:
        raise SystemExit(f"{what} is {got!r}, want {want!r}")


def until(what, holds, seconds=60):
    """Polls until holds() returns something, and returns it."""
    end = time.monotonic() + seconds
    while not (result := holds()):
        if time.monotonic() > end:
            raise SystemExit(f"not within {seconds} s: {what}")
        time.sleep(0.02)
    return result
