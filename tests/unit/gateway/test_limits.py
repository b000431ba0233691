"""What a gateway takes on: rates, open requests, nothing new while it drains."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adjourn.gateway import limits
from adjourn.gateway.limits import LoadLimits, Throttle, TokenBucket


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@given(rate=st.floats(0.1, 1000), burst=st.integers(1, 50), steps=st.lists(st.floats(0, 2), max_size=60))
def test_a_bucket_gives_no_more_than_its_burst_and_what_time_adds(rate: float, burst: int, steps: list[float]) -> None:
    """In any span of time, and whoever is told to wait gets a token after that time."""
    now, taken = 0.0, 0
    bucket = TokenBucket(rate, burst, now)
    for step in steps:
        now += step
        wait = bucket.take(now)
        taken += not wait
        assert taken <= burst + rate * now + 1e-6
        if wait:
            assert TokenBucket.take(bucket, now + wait + 1e-6) == 0
            taken, now = taken + 1, now + wait + 1e-6


def test_a_clock_that_goes_back_gives_nothing() -> None:
    """Nor does it take anything away."""
    bucket = TokenBucket(1, 1, 10.0)
    assert bucket.take(10.0) == 0
    assert bucket.take(5.0) > 0
    assert bucket.take(6.1) == 0


def test_a_client_beyond_its_rate_leaves_that_of_all_untouched() -> None:
    """Another client gets what the first was refused, and the first learns when to come again."""
    clock = Clock()
    throttle = Throttle(LoadLimits(rate=4, client_rate=0.5), clock)
    assert throttle.message("a") is None
    for _ in range(20):
        refused = throttle.message("a")
        assert refused is not None
        assert (refused.status, refused.reason, refused.headers) == (429, "client-rate", ((b"retry-after", b"2"),))
    assert [throttle.message(name) for name in "bcd"] == [None] * 3
    refused = throttle.message("e")
    assert refused is not None
    assert (refused.status, refused.reason) == (429, "rate")
    clock.now += 2
    assert throttle.message("a") is None


def test_open_requests_are_bounded_in_all_and_by_client() -> None:
    """Each that ends makes room for another; no client is remembered then."""
    throttle = Throttle(LoadLimits(requests=3, client_requests=2))
    assert [throttle.begin("a"), throttle.begin("a")] == [None, None]
    refused = throttle.begin("a")
    assert refused is not None
    assert (refused.status, refused.reason) == (429, "client-requests")
    assert throttle.begin("b") is None
    refused = throttle.begin("c")
    assert refused is not None
    assert (refused.status, refused.reason) == (503, "requests")
    for client in "aab":
        throttle.end(client)
    assert (throttle.open, throttle._open) == (0, {})
    assert throttle.begin("c") is None


def test_nothing_begins_while_it_drains_and_subscriptions_do_not_hold_it_up() -> None:
    """It is busy until the last request that will be answered is over."""
    throttle = Throttle(LoadLimits())
    assert throttle.begin("a", lasts=True) is None
    assert throttle.begin("a") is None
    throttle.is_draining = True
    refused = throttle.begin("b")
    assert refused is not None
    assert (refused.status, refused.reason) == (503, "draining")
    assert throttle.is_busy
    throttle.end("a")
    assert not throttle.is_busy


def test_the_number_of_known_rates_is_bounded() -> None:
    """The client that was silent longest is forgotten."""
    throttle = Throttle(LoadLimits(client_rate=1))
    for number in range(limits.MAX_BUCKETS + 10):
        throttle.message(str(number))
    assert len(throttle._buckets) == limits.MAX_BUCKETS
    assert "0" not in throttle._buckets
