"""Family: kernels of one kind, and how the planner asks what they can do."""

from __future__ import annotations

from typing import Protocol

from tilewright.gemm.plan import Plan
from tilewright.gemm.request import Request
from tilewright.gpus import Gpu


class Family(Protocol):
    """`name` is the word in plans, tuning files and `explain matmul`.

    `refusal` is the sentence for a request that no configuration takes ("needs sm_90", "rows of a
    are 14 bytes apart, which TMA does not reach"). `plans` are all legal ones, each with the time
    that the family's own model expects; never empty where `refusal` is None.
    """

    name: str

    def refusal(self, request: Request, gpu: Gpu) -> str | None: ...
    def plans(self, request: Request, gpu: Gpu) -> tuple[Plan, ...]: ...
