"""Plan: a list of launches and a workspace, pure data, made without a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.gemm.step import Step


@dataclass(frozen=True)
class Plan:
    """Steps in order. `workspace_bytes` of device memory, its address a multiple of 256, are bound
    as "workspace"; what they hold before does not matter. `kernel` and `config` name the choice,
    `us` is what the model expects of it, and `notes` are sentences for the user: what was copied
    and why.
    """

    kernel: str
    config: str
    steps: tuple[Step, ...]
    workspace_bytes: int = 0
    us: float | None = None
    notes: tuple[str, ...] = ()
