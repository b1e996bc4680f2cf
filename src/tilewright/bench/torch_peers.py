"""PyTorch as a rival: its matmul, what TorchInductor makes of it, and functions of the user's."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Callable, Sequence
from itertools import count
from types import FunctionType
from typing import TYPE_CHECKING, Any

from tilewright.bench.peers import Bound, named, stored_shapes
from tilewright.bench.user_function import told
from tilewright.errors import EngineError, InputError

if TYPE_CHECKING:
    from tilewright.bench.peers import GemmProblem
    from tilewright.dtypes import DType
    from tilewright.engines.base import Buffer
    from tilewright.engines.gpu import GpuEngine

_TORCH_TYPES = {"fp16": "float16", "bf16": "bfloat16", "tf32": "float32", "fp32": "float32"}
_COUNT = count()


class TorchPeer:
    """torch.mm(a, b, out=c) on the engine's memory and stream.

    Raises: EngineError when torch is missing or sees no GPU.
    """

    def __init__(self, engine: GpuEngine) -> None:
        self.name = "torch"
        self._torch = OurTorch(engine)

    def bind(
        self,
        buffers_a: Sequence[Buffer],
        buffers_b: Sequence[Buffer],
        buffers_c: Sequence[Buffer],
        problem: GemmProblem,
    ) -> Bound:
        a, b, c = self._torch.matrices((buffers_a, buffers_b, buffers_c), problem)
        mm, stream = self._torch.torch.mm, self._torch.stream

        def enqueue(run: int) -> None:
            with stream():
                mm(a[run % len(a)], b[run % len(b)], out=c[run % len(c)])

        return Bound(enqueue, self._torch.version)


class FunctionPeer:
    """A function of two matrices, on the engine's memory and stream.

    `function(a, b, out=c)` where `takes_out`, else `function(a, b)`, whose result is copied into
    C outside the timed interval. `version` says which library it is.
    Raises: EngineError when torch is missing or sees no GPU, and when the function fails;
    InputError when it returns something else than C.
    """

    def __init__(
        self,
        engine: GpuEngine,
        name: str,
        make: Callable[[Any], Callable[..., Any]],
        version: str,
        takes_out: bool = False,
    ) -> None:
        self.name = name
        self._torch = OurTorch(engine)
        self._make = make  # from torch, for each problem anew
        self._version = version
        self._takes_out = takes_out

    def bind(
        self,
        buffers_a: Sequence[Buffer],
        buffers_b: Sequence[Buffer],
        buffers_c: Sequence[Buffer],
        problem: GemmProblem,
    ) -> Bound:
        a, b, c = self._torch.matrices((buffers_a, buffers_b, buffers_c), problem)
        function, stream = self._make(self._torch.torch), self._torch.stream
        last: list[Any] = [None]

        def call(run: int, **out: Any) -> None:
            try:
                with stream():
                    last[0] = function(a[run % len(a)], b[run % len(b)], **out)
            except Exception as error:  # whatever somebody else's code raises
                raise EngineError(f"{self.name} failed: {told(error)}") from error

        def into_c(run: int) -> None:
            call(run, out=c[run % len(c)])

        def deliver(run: int) -> None:
            with stream():
                c[run % len(c)].copy_(last[0])

        version = f"{self._version}, torch {self._torch.version}"
        if self._takes_out:
            into_c(0)
            return Bound(into_c, version)
        call(0)
        self._check(last[0], c[0])
        return Bound(call, version, deliver)

    def _check(self, result: Any, c: Any) -> None:
        shape, kind = getattr(result, "shape", None), getattr(result, "dtype", None)
        if shape != c.shape or kind != c.dtype:
            got = f"{kind} {tuple(shape)}" if shape is not None else type(result).__name__
            raise InputError(
                f"{self.name} returned {got}; it must return {c.dtype} {tuple(c.shape)}, "
                "or write it to a parameter named out."
            )


def inductor(engine: GpuEngine) -> FunctionPeer:
    """The best of TorchInductor's max-autotune, cuBLAS included. Cost: a minute a shape."""
    return _inductor(engine, "inductor", "ATEN,TRITON")


def inductor_triton(engine: GpuEngine) -> FunctionPeer:
    """The best Triton kernel of TorchInductor's max-autotune. Cost: a minute a shape."""
    return _inductor(engine, "inductor_triton", "TRITON")


def _inductor(engine: GpuEngine, name: str, backends: str) -> FunctionPeer:
    def make(torch: Any) -> Callable[..., Any]:
        config: Any = importlib.import_module("torch._inductor.config")
        logging.getLogger("torch._inductor.select_algorithm").setLevel(logging.CRITICAL)
        quiet = {"autotune_num_choices_displayed": 0, "max_autotune_report_choices_stats": False}
        options = {"max_autotune": True, "max_autotune_gemm_backends": backends}
        options |= {word: value for word, value in quiet.items() if hasattr(config, word)}
        # Dynamo keeps what it compiled with the code object, and gives up on one after eight
        # shapes: a fresh one for every problem and every peer.
        fresh = _product.__code__.replace(co_name=f"{name}_{next(_COUNT)}")
        function = FunctionType(fresh, _product.__globals__)
        compiled: Callable[..., Any] = torch.compile(function, dynamic=False, options=options)
        return compiled

    return FunctionPeer(engine, name, make, f"TorchInductor max-autotune over {backends}")


def _product(a: Any, b: Any) -> Any:
    return a @ b


class OurTorch:
    """torch on the engine's device, stream and memory.

    Raises: EngineError when torch is missing or sees no GPU.
    """

    def __init__(self, engine: GpuEngine) -> None:
        self.torch = torch = _import_torch()
        self.version = str(torch.__version__)
        self._device = f"cuda:{engine.ordinal}"
        self.external = torch.cuda.ExternalStream(engine.stream, device=self._device)

    def stream(self) -> Any:
        """A context in which torch enqueues on the engine's stream."""
        return self.torch.cuda.stream(self.external)

    def matrices(
        self, buffers: tuple[Sequence[Buffer], ...], problem: GemmProblem
    ) -> tuple[list[Any], ...]:
        """Tensors of A[m, k], B[k, n] and C[m, n] in the engine's memory, views where one lies
        transposed. Products of fp32 are fp32's own from then on, those of tf32 TF32's."""
        if problem.dtype.bytes == 4:
            self.torch.backends.cuda.matmul.allow_tf32 = problem.dtype.name == "tf32"
        flips = (*(letter == "t" for letter in problem.layout), False)
        return tuple(
            [self._matrix(buffer, shape, problem.dtype, flip) for buffer in each]
            for each, shape, flip in zip(buffers, stored_shapes(problem), flips, strict=True)
        )

    def _matrix(self, buffer: Buffer, shape: tuple[int, int], dtype: DType, flip: bool) -> Any:
        raw = self.torch.as_tensor(_DeviceWords(buffer, shape, dtype.bytes), device=self._device)
        if raw.data_ptr() != buffer.address:
            raise EngineError("torch copied a buffer instead of using it; its result is not ours.")
        matrix = raw.view(getattr(self.torch, named(_TORCH_TYPES, dtype)))
        return matrix.t() if flip else matrix


class _DeviceWords:
    """A buffer as integers of so many bytes: the CUDA array interface has no word for bf16."""

    def __init__(self, buffer: Buffer, shape: tuple[int, int], element_bytes: int) -> None:
        self._buffer = buffer  # torch keeps this object, and so the memory
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": f"<i{element_bytes}",
            "data": (buffer.address, False),
            "strides": None,
            "version": 2,
        }


def _import_torch() -> Any:
    if importlib.util.find_spec("torch") is None:
        raise EngineError("it is not installed: pip install 'tilewright[torch]'.")
    try:
        torch = importlib.import_module("torch")
    except (ImportError, OSError) as error:
        raise EngineError(f"torch cannot be imported: {error}.") from None
    if not torch.cuda.is_available():
        raise EngineError(f"torch {torch.__version__} sees no GPU; install a build with CUDA.")
    torch.cuda.init()
    return torch
