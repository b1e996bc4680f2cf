from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tilewright.bench.choice import fastest, finalists, winner
from tilewright.bench.protocol import Timing
from tilewright.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_first_is_always_a_finalist() -> None:
    assert finalists([9.0, 5.0, 7.0, 6.0, 8.0], 3) == [0, 1, 3]
    assert finalists([1.0, 5.0, 7.0, 1.0], 3) == [0, 3, 1]
    assert finalists([4.0]) == [0]


def timing(*us: float) -> Timing:
    return Timing(str(us), us, 1, "")


def test_the_winner_is_never_slower_than_the_first() -> None:
    assert winner([timing(10, 10, 10), timing(9, 9, 9), timing(8, 11, 11)]) == 1
    assert winner([timing(*[10] * 6), timing(9, 9, 9, 9, 9, 30), timing(*[9.5] * 6)]) == 1
    assert winner([timing(*[10] * 6), timing(9, 9, 9, 9, 30, 30)]) == 0
    assert winner([timing(10, 10, 10), timing(11, 11, 11)]) == 0
    assert winner([timing(10, 10), timing(10, 10)]) == 0


class Clock:
    """A timer whose time passes in the runs themselves."""

    def __init__(self) -> None:
        self.now_us = 0.0

    def record(self) -> float:
        return self.now_us

    def elapsed_us(self, start: float, end: float) -> float:
        return end - start

    def wait(self, mark: float) -> None:
        """Nothing is ever pending."""

    def synchronize(self) -> None:
        """Nothing is ever pending."""

    def capture(self, work: Callable[[], None]) -> Any:
        before = self.now_us
        work()
        took, self.now_us = self.now_us - before, before
        return SimpleNamespace(replay=lambda: self.spend(took))

    def spend(self, us: float) -> None:
        self.now_us += us

    def runs(self, *us: float | None) -> list[Callable[[int], None]]:
        def make(each: float | None) -> Callable[[int], None]:
            def run(which: int) -> None:
                if each is None:
                    raise EngineError("cublasLtMatmul failed with cublasStatus_t 15.")
                self.spend(each)

            return run

        return [make(each) for each in us]


def test_the_fastest_of_many_is_found_and_failures_left_out() -> None:
    clock = Clock()
    many = [90.0 + i for i in range(40)]
    runs = clock.runs(80.0, None, *many, 70.0, None)
    assert fastest(runs, clock, 1) == (42, 42)
    assert fastest(clock.runs(80.0, 90.0), clock, 3) == (0, 2)
    assert fastest(clock.runs(80.0), clock, 3) == (0, 1)
    with pytest.raises(EngineError, match="cublasStatus_t 15"):
        fastest(clock.runs(None, 80.0), clock, 3)
