"""Products of device memory and tuning, on an emulator that stands in for a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilewright
from tilewright.artifact import Source
from tilewright.dtypes import DType
from tilewright.emulator.report import Report
from tilewright.engines.emulator import EmulatorBuffer, EmulatorEngine
from tilewright.errors import EngineError, InputError
from tilewright.gemm import product, rank, tune
from tilewright.gemm.arrays import Operand, operand
from tilewright.gemm.form import packed
from tilewright.gemm.plan import Plan
from tilewright.gemm.product import Matmul
from tilewright.gemm.request import Request
from tilewright.gemm.targets import GpuTarget, described, target_of
from tilewright.gpus import GPUS, Gpu
from tilewright.launch import Launch

from .conftest import CHOOSY, NAIVE, Naive, random


class Pretender(EmulatorEngine):
    """The gpu engine's methods on the emulator; a kernel takes 1 ms, slow.cu takes 10."""

    name = "gpu"

    def __init__(self, gpu: Gpu) -> None:
        super().__init__(gpu)
        self.streams: list[int | None] = []
        self.waits = 0
        self.clock = 0.0
        self.capturing = False
        self.context = SimpleNamespace(settle=lambda: None)

    @contextmanager
    def entered(self) -> Iterator[None]:
        yield

    def launch(self, launch: Launch, stream: int | None = None) -> Report:
        self.streams.append(stream)
        self.clock += 10_000 if launch.artifact.name == "slow.cu" else 1000
        return super().launch(launch)

    def synchronize(self) -> None:
        self.waits += 1

    def refuse_capture(self, stream: int, what: str) -> None:
        if self.capturing:
            raise EngineError(f"{what}: {stream}")

    def refill(self, buffer: EmulatorBuffer) -> None:
        buffer.array.fill(0xFF)

    def peek(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        for known in self._memory.allocations:
            if 0 <= address - known.base < known.nbytes:
                raw = np.asarray(known.array).reshape(-1).view(np.uint8)
                return raw[address - known.base :][:size]
        raise AssertionError(address)

    def capture(self, work: Callable[[], None]) -> Any:
        return SimpleNamespace(replay=work)

    def record(self) -> float:
        return self.clock

    def elapsed_us(self, start: float, end: float) -> float:
        return end - start


class Tensor:
    """A view of memory of the pretended GPU."""

    def __init__(self, buffer: EmulatorBuffer, view: npt.NDArray[Any]) -> None:
        self.buffer, self.view = buffer, view

    @property
    def address(self) -> int:
        first, all_ = (
            each.__array_interface__["data"][0] for each in (self.view, self.buffer.array)
        )
        return self.buffer.address + int(first - all_)


class Library:
    """A framework of such tensors."""

    name = "Library"

    def __init__(self, engine: Pretender) -> None:
        self.engine, self.allocates = engine, True
        self.current: int | None = 7
        self.made: list[tuple[tuple[int, ...], int | None]] = []

    def put(self, array: npt.NDArray[Any]) -> Tensor:
        buffer = self.engine.upload(array)
        return Tensor(buffer, buffer.array)

    def read(self, argument: str, array: Any, stream: int | None) -> Operand:
        size = array.view.itemsize
        strides = [stride // size for stride in array.view.strides]
        dtype = tilewright.dtypes.dtype_of(array.view.dtype.name)
        return operand(argument, array, array.address, dtype, array.view.shape, strides, 0, self)

    def empty(self, like: Operand, shape: Any, dtype: DType, stream: int | None) -> Tensor:
        self.made.append((tuple(shape), stream))
        return self.put(np.full(shape, np.nan, dtype.numpy()))

    def copy(self, source: Any, to: Any) -> None:
        to.view[...] = source.view

    def stream(self, ordinal: int) -> int | None:
        return self.current


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, compiler: str) -> Iterator[Library]:
    gpu = GPUS["h200"]
    engine = Pretender(gpu)
    found = Library(engine)
    target = GpuTarget(engine, gpu, None)  # type: ignore[arg-type]
    monkeypatch.setattr(product, "target_of", lambda *_: target)
    monkeypatch.setattr(
        product, "read", lambda argument, array, stream: found.read(argument, array, stream)
    )
    monkeypatch.setattr(rank, "families", lambda: [NAIVE])
    monkeypatch.setattr(tune, "_best", {})
    rank.rank.cache_clear()
    yield found
    rank.rank.cache_clear()


def test_results_are_made_by_the_framework_on_its_stream(library: Library) -> None:
    a, b = random(1, 3, 4), random(2, 4, 5)
    got = tilewright.matmul(library.put(a), library.put(b))
    assert (got.view == a @ b).all()
    assert library.made == [((3, 5), None)]
    assert library.engine.streams == [7]
    assert library.engine.waits == 0


def test_a_stream_that_is_given(library: Library) -> None:
    a, b = library.put(random(1, 3, 4)), library.put(random(2, 4, 5))
    tilewright.matmul(a, b, stream=11)
    assert library.made == [((3, 5), 11)]
    assert library.engine.streams == [11]
    tilewright.matmul(a, b, stream=0)
    assert library.engine.streams == [11, 0]


def test_without_streams_the_host_waits(library: Library) -> None:
    library.current = None
    a, b = library.put(random(1, 3, 4)), library.put(random(2, 4, 5))
    tilewright.matmul(a, b)
    assert (library.engine.streams, library.engine.waits) == ([None], 1)


def test_out_in_device_memory(library: Library) -> None:
    a, b = library.put(random(1, 3, 4)), library.put(random(2, 4, 5))
    out = library.put(np.zeros((8, 9), np.float32))
    view = Tensor(out.buffer, out.view[1:7:2, 7:2:-1])
    assert tilewright.matmul(a, b, out=view) is view
    assert (view.view == a.view @ b.view).all()
    assert np.count_nonzero(out.view) <= 15
    square = library.put(random(3, 4, 4))
    want = square.view @ square.view
    assert tilewright.matmul(square, square, out=square) is square
    assert (square.view == want).all()


def test_k_0_and_a_workspace(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    bias = library.put(random(3, 5))
    a, b = library.put(np.zeros((3, 0), np.float32)), library.put(np.zeros((0, 5), np.float32))
    got = tilewright.matmul(a, b, bias=bias)
    assert (got.view == np.broadcast_to(bias.view, (3, 5))).all()
    monkeypatch.setattr(rank, "families", lambda: [CHOOSY])
    rank.rank.cache_clear()
    a, b = library.put(random(1, 3, 7)), library.put(random(2, 7, 5))
    library.made.clear()
    got = tilewright.matmul(a, b)
    assert (got.view == a.view @ b.view).all()
    assert [shape for shape, _ in library.made] == [(3, 5), (128,)]  # 512 bytes as fp32

    library.allocates = False
    library.made.clear()
    got = tilewright.matmul(a, b)
    assert (got.view == a.view @ b.view).all()
    assert [shape for shape, _ in library.made] == [(3, 5)]
    assert library.engine.waits == 1  # the engine fills what it allocates on its own stream


def test_several_launches(library: Library) -> None:
    a, b = library.put(random(1, 3, 1, 2, 4)), library.put(random(2, 1, 2, 4, 5))
    got = tilewright.matmul(a, b)
    assert (got.view == a.view @ b.view).all()
    assert len(library.engine.streams) == 2


# --- Tuning --------------------------------------------------------------------------------------


class Several(Naive):
    """The naive plan, one whose source says that it is slow, and one that is wrong."""

    def plans(self, request: Request, gpu: Gpu) -> tuple[Plan, ...]:
        (plan,) = super().plans(request, gpu)
        return (
            self._other(plan, "slow", plan.steps[0].source.text, 1.0),
            self._other(plan, "lazy", _unwritten(plan), 2.0),
            self._other(plan, "wrong", _wrong(plan), 3.0),
            replace(plan, us=4.0),
        )

    def _other(self, plan: Plan, name: str, text: str, us: float) -> Plan:
        (step,) = plan.steps
        source = Source(f"{name}.cu", text, step.source.defines)
        return replace(plan, config=name, us=us, steps=(replace(step, source=source),))


def _unwritten(plan: Plan) -> str:
    text = plan.steps[0].source.text
    return text.replace("if (batch >= g.batch) return;", "if (batch >= g.batch || n == 1) return;")


def _wrong(plan: Plan) -> str:
    return plan.steps[0].source.text.replace("k < g.K", "k < g.K - 1")


@pytest.fixture
def several(library: Library, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setattr(rank, "families", lambda: [Several()])
    rank.rank.cache_clear()
    return library


def test_tuning_takes_the_fastest_that_is_right(several: Library) -> None:
    """Faults TUN-01 and TUN-02: the caller's arrays stay as they are, poison is looked for."""
    a, b, c = (several.put(random(seed, 3, 3)) for seed in range(3))
    out = several.put(random(5, 3, 3))
    before = out.view.copy()
    found = Matmul(a, b, c=c, beta=2, out=out)
    assert found.plan().config == "slow"
    timings = found.tune()
    assert [t.plan.config for t in timings] == ["slow", "lazy", "wrong", "1x1"]
    assert [t.us for t in timings] == [10_000, None, None, 1000]
    assert timings[1].wrong == "3 of 9 elements were not written"
    assert timings[2].wrong.startswith("6 of 9 elements are wrong, first D[0, 1, 0] = -12")
    assert (out.view == before).all()
    assert found.plan().config == "1x1"
    found.execute()
    assert (out.view == a.view @ b.view + 2 * c.view).all()
    other = Matmul(several.put(random(1, 4, 3)), b)
    assert other.plan().config == "slow"  # another request (TUN-04)


def test_tuning_once(several: Library) -> None:
    a, b = several.put(random(1, 2, 3, 4)), several.put(random(2, 2, 4, 5))
    got = tilewright.matmul(a, b, tune="once", bias=several.put(random(3, 5)))
    assert (got.view == a.view @ b.view + random(3, 5)).all()
    count = len(several.engine.streams)
    tilewright.matmul(a, b, tune="once", bias=several.put(random(3, 5)))
    assert len(several.engine.streams) == count + 1


def test_tuning_products_of_nothing(several: Library) -> None:
    a, b = several.put(np.zeros((3, 0), np.float32)), several.put(np.zeros((0, 4), np.float32))
    timings = Matmul(a, b, bias=several.put(random(3, 4))).tune()
    assert [t.us for t in timings] == [
        10_000,
        None,
        1000,
        1000,
    ]  # one product fewer of none is none


def test_nothing_is_tuned_while_a_graph_is_captured(several: Library) -> None:
    """Fault TUN-09: a message, before the stream is touched."""
    a, b = several.put(random(1, 3, 4)), several.put(random(2, 4, 3))
    several.engine.capturing = True
    with pytest.raises(EngineError, match="a product cannot be tuned: 7"):
        tilewright.matmul(a, b, tune="once")
    assert several.engine.streams == []
    several.engine.capturing = False
    tilewright.matmul(a, b, tune="once")
    several.engine.capturing = True
    tilewright.matmul(a, b, tune="once")


def test_the_first_product_of_nothing_is_not_captured(several: Library) -> None:
    a, b = several.put(np.zeros((3, 0), np.float32)), several.put(np.zeros((0, 4), np.float32))
    several.engine.capturing = True
    with pytest.raises(EngineError, match="the first product over k = 0 cannot run: 7"):
        tilewright.matmul(a, b)
    several.engine.capturing = False
    tilewright.matmul(a, b)
    several.engine.capturing = True
    tilewright.matmul(a, b)


def test_no_plan_is_right(several: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(Several):
        def plans(self, request: Request, gpu: Gpu) -> tuple[Plan, ...]:
            return super().plans(request, gpu)[1:3]

    monkeypatch.setattr(rank, "families", lambda: [Wrong()])
    with pytest.raises(EngineError, match=r"no plan gives the right result: naive lazy: .* not wr"):
        Matmul(several.put(random(1, 3, 4)), several.put(random(2, 4, 3))).tune()


# --- Targets -------------------------------------------------------------------------------------


def fake_engine(title: str, arch: str, sms: int) -> Any:
    return SimpleNamespace(
        gpu_name=title, arch=arch, sms=sms, l2_bytes=1, shared_bytes_limit=99 * 1024
    )


def test_a_known_gpu_has_its_own_multiprocessors() -> None:
    gpu, note = described(fake_engine("NVIDIA H100 PCIe", "sm_90", 114))
    assert (gpu.sms, gpu.memory_gbps, note) == (114, GPUS["h100"].memory_gbps, None)


@pytest.mark.parametrize(("arch", "like"), [("sm_89", "rtx4090"), ("sm_100", "a100")])
def test_an_unknown_gpu_gets_a_note(arch: str, like: str) -> None:
    gpu, note = described(fake_engine("NVIDIA New", arch, 20))
    assert (gpu.title, gpu.arch, gpu.sms) == ("NVIDIA New", arch, 20)
    assert gpu.memory_gbps == GPUS[like].memory_gbps
    assert note is not None
    assert "not in the table" in note


def test_the_emulator_takes_no_device_memory() -> None:
    form = packed("b", tilewright.dtypes.FP32, (2,))
    lying: Any = SimpleNamespace(form=form, ordinal=1, place="cuda:1")
    with pytest.raises(InputError, match="takes NumPy arrays, and b lies on cuda:1"):
        target_of(lying, "emulator")
