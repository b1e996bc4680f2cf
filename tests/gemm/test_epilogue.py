"""Each part's three faces agree: a kernel of one thread an element against float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.artifact import Artifact, Source
from tilewright.build import build
from tilewright.dtypes import BF16, DTYPES, FP16, FP32, DType
from tilewright.engines.emulator import EmulatorEngine
from tilewright.errors import InputError
from tilewright.gemm.activations import FUNCTIONS
from tilewright.gemm.chain import (
    chain_columns,
    chain_cpp,
    chain_defines,
    chain_headers,
    chain_struct,
    check_shapes,
)
from tilewright.gemm.epilogue import (
    Activation,
    AddC,
    Alpha,
    Bias,
    Chain,
    Expression,
    Gate,
    Residual,
    Scale,
    Softcap,
)
from tilewright.gemm.interval import Interval
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.part import Part
from tilewright.gpus import GPUS
from tilewright.launch import Launch

pytest.importorskip("ml_dtypes", reason="bf16 arrays need ml_dtypes")

Wide = npt.NDArray[np.float64]
ARCH, THREADS = "sm_80", 128
KERNEL = """
static_assert(sizeof(EPILOGUE) == EPILOGUE_BYTES, "the epilogue's Python and C++ disagree");

extern "C" __global__ void gemm(const float* x, float* y, int M, int N,
                                const __grid_constant__ EPILOGUE given) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x, row = at / N, col = at % N;
  if (row >= M) return;
  EPILOGUE e = given;
  e.select(blockIdx.z);
  x += (blockIdx.z * M + row) * N * COLUMNS;
  y += (blockIdx.z * M + row) * N;
#if COLUMNS == 2
  y[col] = e(x[col], x[N + col], row, col);
#else
  y[col] = e(x[col], row, col);
#endif
}
"""


@cache
def compiled(parts: tuple[Part, ...]) -> Artifact:
    includes = "".join(f'#include "{name}"\n' for name in chain_headers(parts))
    defines = {**chain_defines(parts), "COLUMNS": str(chain_columns(parts))}
    return build(Source("applied.cu", includes + KERNEL, tuple(defines.items())), ARCH)


class Operand:
    """A matrix [batch, rows, cols] somewhere in a span of memory, by any strides."""

    def __init__(self, dtype: DType, view: npt.NDArray[Any], span: npt.NDArray[Any]) -> None:
        start = view.__array_interface__["data"][0] - span.__array_interface__["data"][0]
        self.view, self.span, self.start = view, span, start
        batch, row, col = (stride // view.itemsize for stride in view.strides)
        self.matrix = Matrix(dtype, view.shape[1], view.shape[2], row, col, batch, view.itemsize)


def applied(
    parts: Sequence[Part],
    x: npt.NDArray[np.float32],
    operands: Mapping[str, Operand] | None = None,
    **scalars: float,
) -> npt.NDArray[np.float32]:
    """The chain on x[batch, m, n], n twice the result's with a gate."""
    engine = EmulatorEngine(next(gpu for gpu in GPUS.values() if gpu.arch == ARCH))
    batch, m, n = x.shape
    n //= chain_columns(parts)
    bindings: dict[str, int | float] = dict(scalars)
    for name, operand in (operands or {}).items():
        bindings[name] = engine.upload(operand.span).address + operand.start
    source, result = engine.upload(x), engine.empty((batch, m, n), np.dtype(np.float32))
    report = engine.launch(
        Launch(
            compiled(tuple(parts)),
            "gemm",
            (-(-m * n // THREADS), 1, batch),
            (THREADS, 1, 1),
            (
                *(np.uint64(buffer.address).tobytes() for buffer in (source, result)),
                *(np.int32(extent).tobytes() for extent in (m, n)),
                chain_struct(parts).param(bindings),
            ),
        )
    )
    assert report.completed
    assert report.findings == []
    return engine.download(result)


def check(
    parts: Sequence[Part],
    x: npt.NDArray[np.float32],
    operands: Mapping[str, Operand] | None = None,
    **scalars: float,
) -> Wide:
    """Holds the kernel to both other faces; returns its result."""
    arrays = {name: operand.view for name, operand in (operands or {}).items()}
    arrays |= {name: np.asarray(value) for name, value in scalars.items()}
    exact, between = x.astype(np.float64), Interval.of(x)
    for part in parts:
        exact, between = part.numpy(exact, arrays), part.enclose(between, arrays)  # type: ignore[attr-defined]
    got = applied(parts, x, operands, **scalars).astype(np.float64)
    unsure = np.isneginf(between.low) & np.isposinf(between.high)
    fits = (between.low <= got) & (got <= between.high)
    wrong = ~(unsure | fits | (np.isnan(between.low) & np.isnan(got)))
    assert not wrong.any(), (parts, x[wrong][:4], got[wrong][:4], exact[wrong][:4])
    inside = (between.low <= exact) & (exact <= between.high)
    assert (unsure | inside | (np.isnan(exact) & np.isnan(between.low))).all()
    return got


def grid() -> npt.NDArray[np.float32]:
    """[1, 1, n]: everywhere that a function might be wrong."""
    size = np.concatenate([np.linspace(0, 15, 2500), np.logspace(-45, 38.5, 900)])
    edges = [0, 2.0**-149, 2.0**-126, 3.4028234663852886e38, np.inf, 1e10]
    every = np.concatenate([size, edges, np.arange(8)]).astype(np.float32)
    return np.concatenate([every, -every, [np.float32(np.nan)]])[None, None]


POINTWISE: list[Part] = [
    *(Activation(name) for name in FUNCTIONS),
    Softcap(30.0),
    Softcap(1e-3),
    Expression("x > 0 ? x : 0.1f * expf(x) - .1"),
    Expression("x / (1 + expf(-x)) - fminf(x, col) * -erff(x)"),
    Expression("floorf(x) + logf(fabsf(x)) / sqrtf(x * x + 1) + (x >= 2 && x != 3 || x < -4)"),
    Expression("fmaxf(tanhf(x), exp2f(x)) + ceilf(log2f(x)) * rsqrtf(x + 1) + (row == x)"),
]


@pytest.mark.usefixtures("compiler")
@pytest.mark.filterwarnings("ignore:(overflow|invalid value):RuntimeWarning")
@pytest.mark.parametrize("part", POINTWISE, ids=str)
def test_functions_keep_to_their_errors(part: Part) -> None:
    check([part], grid())


INF, NAN = float("inf"), float("nan")


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("function", "plus", "minus", "far"),
    [
        ("relu", INF, 0.0, 0.0),
        ("gelu", INF, NAN, 0.0),  # as PyTorch: −inf · 0
        ("gelu_tanh", INF, NAN, 0.0),
        ("silu", INF, NAN, 0.0),
        ("sigmoid", 1.0, 0.0, 0.0),
        ("tanh", 1.0, -1.0, -1.0),
    ],
)
def test_values_at_infinity_are_pytorchs(
    function: str, plus: float, minus: float, far: float
) -> None:
    x = np.array([INF, -INF, -1e30, NAN], np.float32)[None, None]
    got = applied([Activation(function)], x)[0, 0]
    np.testing.assert_array_equal(got, [plus, minus, far, NAN])


def random_operand(random: np.random.Generator, batch: int, rows: int, cols: int) -> Operand:
    """Row-major, transposed, flipped, sparse, a vector or one number; one for all or for each."""
    dtype = [BF16, FP16, FP32][random.integers(3)]
    kept = [1 if random.random() < 0.3 else extent for extent in (batch, rows, cols)]
    steps = random.integers(1, 3, 3)
    order = random.permutation(3)
    extents = [int(extent * step) for extent, step in zip(kept, steps, strict=True)]
    span = random.standard_normal([extents[axis] for axis in order], np.float32)
    span = span.astype(dtype.numpy())
    view = span.transpose(np.argsort(order))[tuple(slice(None, None, int(s)) for s in steps)]
    view = view[tuple(slice(None, None, -1 if random.random() < 0.3 else 1) for _ in range(3))]
    return Operand(dtype, np.broadcast_to(view, (batch, rows, cols)), span)


def random_chain(
    random: np.random.Generator, batch: int, m: int, n: int
) -> tuple[Chain, dict[str, Operand]]:
    """Every kind of part in a legal order, most of the time several."""
    gated = random.random() < 0.4
    cols = 2 * n if gated else n
    wide = {name: random_operand(random, batch, m, cols) for name in ("c", "bias", "early")}
    late = {name: random_operand(random, batch, m, n) for name in ("scale", "residual")}
    operands = wide | late
    at = {name: operand.matrix for name, operand in operands.items()}
    offered: list[Part] = [
        Alpha(),
        Scale(at["early"], "early"),
        AddC(at["c"]),
        Bias(at["bias"]),
        Expression("x + 0.25f * col - row"),
        Activation(str(random.choice(list(FUNCTIONS)))),
        Softcap(5.0),
        Scale(at["scale"]),
        Residual(at["residual"]),
        Activation("relu"),
    ]
    chosen = [part for part in offered if random.random() < 0.5]
    if gated:
        before = [part for part in chosen if "early" in part.operands or part in offered[:5]]
        kind = str(random.choice(["swiglu", "geglu", "geglu_tanh", "reglu", "glu"]))
        chosen = [*before, Gate(kind, n), *chosen[len(before) :]]
    chain = Chain(chosen)
    check_shapes(chain, m, n)
    return chain, {name: operands[name] for part in chain for name in part.operands}


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("seed", range(16))
def test_chains_agree_whatever_their_operands(seed: int) -> None:
    random = np.random.default_rng(seed)
    batch, m, n = (int(random.integers(1, most)) for most in (4, 9, 14))
    chain, operands = random_chain(random, batch, m, n)
    x = random.standard_normal((batch, m, n * chain_columns(chain)), np.float32) * 3
    check(chain, x, operands, alpha=0.3, beta=-1.7)


@pytest.mark.usefixtures("compiler")
def test_the_kernel_gets_what_the_record_says() -> None:
    """A part without fields takes no room between others, the same one twice neither."""
    fives = np.full((1, 2, 3), 5, np.float32)
    number = Operand(FP32, fives, fives)
    relu = Activation("relu")
    chain = Alpha() >> relu >> relu >> Softcap(100.0) >> relu >> Residual(number.matrix) >> relu
    struct = chain_struct(chain)
    assert struct.record.offsets["p3_cap"] == 8
    assert struct.record.offsets["p5_data"] == 16
    assert struct.record.itemsize == 48
    got = check(chain, np.full((1, 2, 3), 2, np.float32), {"residual": number}, alpha=3.0)
    assert got == pytest.approx(5 + 100 * np.tanh(0.06))


def test_a_gate_takes_the_first_columns_and_scales_the_others() -> None:
    x = np.array([[[1.0, -2.0, 10.0, 10.0]]])
    assert Gate("reglu", 2).numpy(x, {}).tolist() == [[[10.0, 0.0]]]


def test_without_parts_the_product_is_plain() -> None:
    assert chain_cpp(()) == "tile::Plain"
    assert chain_headers(()) == ("tile/epilogue.cuh",)
    assert chain_defines(()) == {"EPILOGUE": "tile::Plain", "EPILOGUE_BYTES": "1"}
    assert chain_struct(()).param({}) == b"\0"


def test_types_say_which_strides_are_known() -> None:
    vector = Matrix(BF16, 7, 9, 0, 1)
    assert Bias(vector).cpp == "tile::Add<bf16, 0, 1>"
    assert AddC(Matrix(FP16, 7, 9, -9, 1)).cpp == "tile::AddC<fp16, tile::ANY, 1>"
    assert Scale(Matrix(DTYPES["fp32"], 1, 9, 1234, 3)).cpp == "tile::Times<float, 0, tile::ANY>"
    assert dict(chain_struct((AddC(Matrix(FP16, 7, 9, -9, 1)),)).values)["p0_row_stride"] == (
        2**64 - 9
    )


M, N = 4, 6
FULL, HALF = Matrix(FP32, M, 2 * N, 2 * N, 1), Matrix(FP32, M, N, N, 1)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([Gate("glu", N), Activation("relu"), Gate("glu", N)], "two gates"),
        ([Bias(FULL), Alpha()], "put it before Bias"),
        ([Activation("relu"), Bias(HALF)], "added to the sum: put it before Activation"),
        ([Gate("glu", N), AddC(HALF)], "added to the sum: put it before Gate"),
        ([Residual(HALF), Bias(HALF)], "put it before Residual"),
        ([Residual(FULL), Gate("glu", N)], "put it after the Gate"),
        ([Scale(HALF), Scale(FULL)], "two operands are called 'scale'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_orders_without_a_meaning_are_refused(parts: list[Part], why: str) -> None:
    with pytest.raises(InputError, match=why):
        Chain(parts)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([Bias(HALF), Gate("glu", N)], "bias is 4×6 and must be 4×12"),
        ([Gate("glu", N), Residual(FULL)], "residual is 4×12 and must be 4×6"),
        ([Gate("glu", N + 1)], "width must be 6"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(parts: list[Part], why: str) -> None:
    with pytest.raises(InputError, match=why):
        check_shapes(Chain(parts), M, N)


def test_parts_refuse_what_they_do_not_know() -> None:
    for make, why in (
        (lambda: Activation("swish"), "activation='swish'"),
        (lambda: Gate("silu", 4), "gate='silu'"),
        (lambda: Gate("glu", 0), "width=0"),
        (lambda: Softcap(0.0), "cap=0"),
        (lambda: Softcap(float("nan")), "cap=nan"),
        (lambda: Scale(HALF, "beta"), "name='beta'"),
    ):
        with pytest.raises(InputError, match=why):
            make()


def test_parts_can_be_keys() -> None:
    again = Alpha() >> Bias(HALF) >> Expression("x + 1")
    assert hash(again) == hash(Alpha() >> Bias(HALF) >> Expression("x + 1"))
    assert again != Alpha() >> Bias(HALF) >> Expression("x + 2")
