from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from tilewright.bench import protocol
from tilewright.bench.protocol import Candidate, Settings, Timing
from tilewright.errors import EngineError, InputError


@dataclass
class FakeReplay:
    clock: FakeClock
    calls: list[tuple[str, int]]

    def replay(self) -> None:
        self.clock.graph_launches += 1
        for name, run in self.calls:
            self.clock.run(name, run)


@dataclass
class FakeClock:
    """An engine whose kernels take the time they are told to; `launch_us` is the host's share."""

    us_of: dict[str, float]
    launch_us: float = 0.0
    now_us: float = 0.0
    refuses_capture: bool = False
    graph_launches: int = 0
    log: list[tuple[str, int]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    waited_for: list[float] = field(default_factory=list)
    capturing: list[tuple[str, int]] | None = None

    def enqueue(self, name: str) -> Callable[[int], None]:
        def work(run: int) -> None:
            if self.capturing is not None:
                self.capturing.append((name, run))
            else:
                self.now_us += self.launch_us
                self.run(name, run)

        return work

    def run(self, name: str, run: int) -> None:
        self.now_us += self.us_of[name]
        self.log.append((name, run))

    def candidate(self, name: str, capturable: bool = True) -> Candidate:
        return Candidate(name, self.enqueue(name), capturable)

    def record(self) -> float:
        self.order.append(self.log[-1][0] if self.log else "")
        return self.now_us

    def elapsed_us(self, start: float, end: float) -> float:
        return end - start

    def wait(self, mark: float) -> None:
        self.waited_for.append(mark)

    def synchronize(self) -> None:
        pass

    def capture(self, work: Callable[[], None]) -> FakeReplay:
        if self.refuses_capture:
            raise EngineError("the work cannot be captured in a graph: no")
        self.capturing = []
        work()
        calls, self.capturing = self.capturing, None
        return FakeReplay(self, calls)


SETTINGS = Settings(sets=3, rounds=5, round_us=900.0, warmup_us=1000.0)


def test_each_candidate_gets_its_own_time_from_graph_replays() -> None:
    clock = FakeClock({"fast": 10.0, "slow": 25.0}, launch_us=7.0)
    fast, slow = protocol.measure(
        [clock.candidate("fast"), clock.candidate("slow")], clock, SETTINGS
    )
    assert fast.us == pytest.approx(10.0)
    assert slow.us == pytest.approx(25.0)
    assert fast.ratio(slow) == pytest.approx(2.5)
    assert len(fast.us_samples) == SETTINGS.rounds
    assert clock.graph_launches > 0
    assert fast.method == (
        "graph replay, 5 interleaved rounds of 108 runs over 3 input sets, "
        "each after 0.05 ms of its own runs"
    )


def test_a_round_is_long_enough_though_the_host_launches_slower_than_the_kernel_runs() -> None:
    clock = FakeClock({"tiny": 1.0}, launch_us=9.0)
    (tiny,) = protocol.measure([clock.candidate("tiny")], clock, SETTINGS)
    assert tiny.runs_per_round * 1.0 >= SETTINGS.round_us


def test_every_round_walks_over_all_sets_equally_often() -> None:
    clock = FakeClock({"one": 10.0})
    (one,) = protocol.measure([clock.candidate("one")], clock, SETTINGS)
    last = [run for _, run in clock.log[-one.runs_per_round :]]
    assert {last.count(run) for run in range(3)} == {one.runs_per_round // 3}
    assert last[:4] == [0, 1, 2, 0]
    assert all(0 <= run < 3 for _, run in clock.log)


@pytest.mark.parametrize("count", range(1, 9))
def test_every_candidate_follows_every_other_equally_often(count: int) -> None:
    turns = [protocol.turn_order(turn, count) for turn in range(count * (1 + count % 2))]
    assert all(sorted(order) == list(range(count)) for order in turns)
    assert [order[0] for order in turns[:count]] == list(range(count))
    followers = Counter(pair for order in turns for pair in pairwise(order))
    assert len(followers) == count * (count - 1)
    assert set(followers.values()) <= {1 + count % 2}
    places = Counter(pair for order in turns for pair in enumerate(order))
    assert set(places.values()) == {1 + count % 2}


def test_rounds_are_interleaved_and_their_order_rotates() -> None:
    clock = FakeClock({"a": 300.0, "b": 300.0, "c": 300.0})
    timings = protocol.measure(
        [clock.candidate(name) for name in "abc"], clock, Settings(sets=1, rounds=3, round_us=300.0)
    )
    runs = timings[0].runs_per_round
    lead_in = 1
    tail = [name for name, _ in clock.log][-9 * (runs + lead_in) :]
    assert "".join(tail[:: runs + lead_in]) == "abcbcacab"


def test_what_cannot_be_captured_is_timed_in_the_stream_and_says_so() -> None:
    clock = FakeClock({"a": 10.0, "b": 10.0}, refuses_capture=True)
    refused, plain = protocol.measure(
        [clock.candidate("a"), clock.candidate("b", capturable=False)], clock, SETTINGS
    )
    assert refused.method.startswith("stream loop (the work cannot be captured in a graph: no), ")
    assert plain.method.startswith("stream loop (not capturable), ")
    assert refused.us == pytest.approx(10.0)


def test_a_long_round_replays_a_graph_of_bounded_size() -> None:
    clock = FakeClock({"tiny": 1.0})
    (tiny,) = protocol.measure(
        [clock.candidate("tiny")], clock, Settings(sets=7, rounds=1, round_us=10_000.0)
    )
    assert tiny.runs_per_round >= 10_000
    assert tiny.runs_per_round % 7 == 0
    assert clock.graph_launches > 3


@pytest.mark.parametrize("us", [0.0, -1.0, math.nan, math.inf])
def test_a_time_that_is_none_raises(us: float) -> None:
    clock = FakeClock({"broken": 1.0})
    clock.elapsed_us = lambda start, end: us  # type: ignore[method-assign]
    with pytest.raises(EngineError, match="broken took"):
        protocol.measure([clock.candidate("broken")], clock, SETTINGS)


def test_a_clock_that_stands_still_raises() -> None:
    clock = FakeClock({"broken": 0.0})
    clock.elapsed_us = lambda start, end: 5.0  # type: ignore[method-assign]
    with pytest.raises(EngineError, match="the clock stands still"):
        protocol.measure([Candidate("broken", lambda run: None)], clock, SETTINGS)


def test_candidates_must_have_different_names() -> None:
    clock = FakeClock({"a": 1.0})
    with pytest.raises(InputError, match="each name once"):
        protocol.measure([clock.candidate("a"), clock.candidate("a")], clock, SETTINGS)
    with pytest.raises(InputError, match="one or more"):
        protocol.measure([], clock, SETTINGS)


@pytest.mark.parametrize(
    ("name", "value"), [("sets", 0), ("rounds", 0), ("round_us", math.nan), ("warmup_us", -1.0)]
)
def test_settings_that_measure_nothing_raise(name: str, value: float) -> None:
    with pytest.raises(InputError, match=name):
        Settings(**{name: value})  # type: ignore[arg-type]


def test_ratio_is_taken_round_by_round() -> None:
    ours = Timing("ours", (1.0, 2.0, 4.0), 1, "")
    rival = Timing("rival", (3.0, 4.0, 4.0), 1, "")
    assert ours.ratio(rival) == 2.0  # of 3, 2, 1; the medians' ratio would be 2 too,
    drifting = Timing("rival", (1.5, 3.0, 6.0), 1, "")
    assert ours.ratio(drifting) == 1.5  # and drift that hits both alike does not show
    with pytest.raises(InputError, match="only timings of one measurement"):
        ours.ratio(Timing("other", (1.0,), 1, ""))


def test_quantiles_are_numpys() -> None:
    timing = Timing("x", (5.0, 1.0, 2.0, 4.0, 3.0, 9.0), 1, "")
    assert (timing.p20, timing.us, timing.p80) == (2.0, 3.5, 5.0)


@pytest.mark.parametrize(
    ("bytes_per_set", "sets"), [(100, 12), (599, 3), (600, 2), (1199, 2), (1200, 1), (5000, 1)]
)
def test_input_sets_fill_the_l2_twice(bytes_per_set: int, sets: int) -> None:
    assert protocol.input_sets(bytes_per_set, 600, 10_000) == sets


def test_input_sets_that_do_not_fit_raise_with_the_numbers() -> None:
    with pytest.raises(InputError, match="12 input sets of 100 bytes do not fit into the 500"):
        protocol.input_sets(100, 600, 500)
    with pytest.raises(InputError, match="bytes_per_set=0"):
        protocol.input_sets(0, 600, 500)


def test_noise_floor_is_zero_for_the_same_and_sees_offset_and_spread() -> None:
    steady = Timing("x", (2.0,) * 5, 1, "")
    assert protocol.noise_floor(steady, steady) == 0
    offset = Timing("y", (2.1,) * 5, 1, "")
    assert protocol.noise_floor(offset, steady) == pytest.approx(0.05)
    noisy = Timing("z", (1.0, 1.5, 2.0, 2.5, 3.0), 1, "")
    assert protocol.noise_floor(noisy, steady) > 0.2
    clock = FakeClock({"same": 20.0})
    assert protocol.measure_noise(clock.candidate("same"), clock, SETTINGS) == pytest.approx(0)


def test_each_timed_interval_is_observed_while_it_runs() -> None:
    clock = FakeClock({"a": 10.0, "b": 20.0})
    told: list[tuple[float, str]] = []

    def observe() -> int:
        told.append((clock.waited_for[-1], clock.log[-1][0]))
        return len(told)

    candidates = [clock.candidate("a"), clock.candidate("b")]
    a, b = protocol.measure(candidates, clock, SETTINGS, observe)
    assert (len(a.readings), len(b.readings)) == (5, 5)
    assert sorted((*a.readings, *b.readings)) == list(range(1, 11))
    assert [told[reading - 1][1] for reading in a.readings] == ["a"] * 5
    starts = [mark for mark, _ in told]  # the marks waited for are those of the timed intervals
    assert starts == sorted(starts)
    assert protocol.measure(candidates, clock, SETTINGS)[0].readings == ()
