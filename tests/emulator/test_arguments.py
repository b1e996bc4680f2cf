"""What Python values become, parameter by parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.emulator.arguments import argument_bytes, pack
from tilewright.emulator.ir import Kernel, Parameter
from tilewright.emulator.memory import GlobalMemory
from tilewright.errors import InputError


def raw(value: Any, kind: str, nbytes: int) -> bytes:
    return argument_bytes(value, Parameter("x", kind, 0, nbytes), GlobalMemory())


@pytest.mark.parametrize(
    ("value", "kind", "nbytes", "want"),
    [
        (5, "u32", 4, b"\x05\0\0\0"),
        (-1, "u32", 4, b"\xff" * 4),
        (-(2**31), "s32", 4, b"\0\0\0\x80"),
        (2**32 - 1, "s32", 4, b"\xff" * 4),
        (np.int64(-2), "u16", 2, b"\xfe\xff"),
        (np.uint8(200), "s8", 1, b"\xc8"),
        (True, "u8", 1, b"\x01"),
        (np.True_, "b8", 1, b"\x01"),
        (2**63, "u64", 8, b"\0" * 7 + b"\x80"),
        (1.5, "f32", 4, b"\0\0\xc0\x3f"),
        (np.float32(1.5), "f32", 4, b"\0\0\xc0\x3f"),
        (np.float64(1.5), "f32", 4, b"\0\0\xc0\x3f"),
        (3, "f32", 4, b"\0\0\x40\x40"),
        (True, "f32", 4, b"\0\0\x80\x3f"),
        (1e300, "f32", 4, b"\0\0\x80\x7f"),
        (1.5, "f64", 8, b"\0\0\0\0\0\0\xf8\x3f"),
        (np.float16(1), "b8", 2, b"\0\x3c"),
        (np.float16(1), "b16", 2, b"\0\x3c"),
        (b"abc", "b8", 3, b"abc"),
        (bytearray(b"abcd"), "u32", 4, b"abcd"),
        (np.array((1, 2), "u1,u2")[()], "b8", 3, b"\x01\x02\0"),
        (np.array((1, 2), "u1,u2"), "b8", 3, b"\x01\x02\0"),
        (None, "u64", 8, bytes(8)),
    ],
)
def test_scalars_and_structs(value: Any, kind: str, nbytes: int, want: bytes) -> None:
    assert raw(value, kind, nbytes) == want


def test_a_bfloat16_scalar() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert raw(ml_dtypes.bfloat16(1), "b8", 2) == b"\x80\x3f"
    assert raw(ml_dtypes.bfloat16(1), "b16", 2) == b"\x80\x3f"


def test_arrays_get_addresses() -> None:
    memory = GlobalMemory()
    arrays = [np.zeros(4, dtype) for dtype in ("f4", "?", "u1", "f2", "c8")]
    parameter = Parameter("x", "u64", 0, 8)
    addresses = [argument_bytes(a, parameter, memory) for a in (*arrays, arrays[0])]
    assert len(set(addresses)) == 5
    assert addresses[0] == addresses[5]
    assert [a.name for a in memory.allocations] == ["x"] * 5


def readonly() -> np.ndarray[Any, Any]:
    array = np.zeros(4)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("value", "kind", "nbytes", "why"),
    [
        (2**32, "u32", 4, "x is 4294967296, which does not fit in 4 bytes"),
        (-(2**31) - 1, "s32", 4, "does not fit"),
        (256, "u8", 1, "does not fit"),
        (1.0, "u32", 4, r"an integer of 4 bytes, not 1\.0"),
        (np.float32(1), "s64", 8, "an integer of 8 bytes"),
        pytest.param(10**5000, "u64", 8, "x is this int, which does not fit", id="long"),
        ([1, 2], "u64", 8, r"x is a pointer or an integer of 8 bytes, not \[1, 2\]; give a NumPy"),
        (1.5, "s64", 8, r"not 1\.5; give a NumPy array, None or a whole number"),
        pytest.param(list(range(10**6)), "u64", 8, r"not \[0, 1, 2, 3, 4, 5, \.\.\.\];", id="many"),
        ("a\nb" * 1000, "u64", 8, r"not '.{,40}';"),
        ("5", "u32", 4, "not '5'"),
        ([1], "u32", 4, "an integer"),
        (1j, "f32", 4, "a float of 4 bytes"),
        ("1", "f32", 4, "a float of 4 bytes"),
        ([1.0], "f32", 4, "a float"),
        (10**400, "f64", 8, "a float"),
        (object(), "f64", 8, "a float"),
        (5, "b8", 40, "a struct of 40 bytes; give bytes"),
        (1.0, "b8", 2, "a struct of 2 bytes"),
        (b"abc", "b8", 4, "takes 4 bytes, not 3"),
        (np.array((1, 2), "u1,u2"), "b8", 4, "takes 4 bytes, not 3"),
        (np.float16(1), "f32", 4, None),
        (None, "u32", 4, "None is a null pointer"),
        (None, "f64", 8, "null pointer"),
        (np.zeros(4), "u32", 4, "an array needs a pointer"),
        (np.zeros(4), "f64", 8, "an array needs a pointer"),
        (np.zeros(4), "b8", 16, "an array needs a pointer"),
        (np.zeros(4), "b8", 128, r"what tilewright\.tensormap\.tiled\(array, box\) makes"),
        (np.array(5), "u32", 4, r"value\.item\(\)"),
        (np.array(5), "u64", 8, r"shape \(1,\)"),
        (np.zeros((4, 4)).T[1:], "u64", 8, r"shape \(3, 4\).*ascontiguousarray"),
        (np.zeros(8)[::2], "u64", 8, r"not C-contiguous .*strides \(16,\) bytes"),
        (readonly(), "u64", 8, r"read-only, and the kernel may write it; give its \.copy"),
        (np.broadcast_to(np.zeros(1), (4, 1)), "u64", 8, "not C-contiguous"),
        (np.array([None]), "u64", 8, "object"),
        (np.zeros(4, "V0"), "u64", 8, "no kernel can read"),
        (np.zeros(4, ">f4"), "u64", 8, "byte order"),
    ],
)
def test_what_does_not_fit(value: Any, kind: str, nbytes: int, why: str | None) -> None:
    if why is None:
        assert raw(value, kind, nbytes) == b"\0\0\x80\x3f"
        return
    with pytest.raises(InputError, match=why):
        raw(value, kind, nbytes)


def test_an_array_that_is_not_written_may_be_read_only() -> None:
    array, memory = readonly(), GlobalMemory()
    argument_bytes(array, Parameter("x", "u64", 0, 8), memory, what="argument 1", written=False)
    assert [a.name for a in memory.allocations] == ["x"]
    assert memory.allocations[0].array is array
    with pytest.raises(InputError, match="the array for argument 1 is not C-contiguous"):
        argument_bytes(
            np.zeros(8)[::2], Parameter("x", "u64", 0, 8), memory, what="argument 1", written=False
        )


def test_parameters_are_packed_with_gaps() -> None:
    kernel = Kernel("k", [Parameter("a", "u8", 0, 1), Parameter("b", "u64", 8, 8)])
    assert pack(kernel, [b"\x01", b"\x02" * 8]) == b"\x01" + bytes(7) + b"\x02" * 8
    with pytest.raises(InputError, match="k takes 2 parameters, not 1"):
        pack(kernel, [b"\x01"])
    with pytest.raises(InputError, match="b takes 8 bytes, not 1"):
        pack(kernel, [b"\x01", b"\x02"])


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ((1, np.int64(2)), "01000000 00000000 02000000 00000000"),
        ((np.int64(2), 1), "02000000 00000000 01000000 00000000"),
        ((True, np.uint16(513), 1.5, -1), "01000102 0000c03f ffffffff"),
        ((np.float16(1), (np.uint8(3), np.float64(2))), "003c0000 00000000 03000000 00000000"
         "00000000 00000040"),
        ((b"abc", np.uint32(5)), "61626300 05000000"),
        ((None, np.void(b"xy")), "00000000 00000000 78790000 00000000"),
    ],
)  # fmt: skip
def test_a_tuple_is_laid_out_as_a_struct(value: Any, want: str) -> None:
    expected = bytes.fromhex(want)
    assert raw(value, "b8", len(expected)) == expected


def test_arrays_in_a_tuple_are_pointers() -> None:
    memory, array = GlobalMemory(), np.zeros(4)
    got = argument_bytes((array, 7), Parameter("x", "b8", 0, 16), memory)
    assert got[:8] == memory.allocate(array).to_bytes(8, "little")
    assert got[8:] == b"\x07" + b"\0" * 7
    assert memory.allocations[0].name == "x[0]"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ((1, 2, 3), r"x takes 16 bytes, and its tuple makes 12, members aligned to 4"),
        ((np.zeros(2), 2**40), r"x\[1\] is 1099511627776, which does not fit in 4 bytes"),
        ((np.zeros((2, 2)).T, 1), r"the array for x\[0\] is not C-contiguous"),
        ((np.zeros(2), "a"), r"x\[1\] is an integer of 4 bytes, not 'a'"),
    ],
)
def test_tuples_that_do_not_fit(value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        raw(value, "b8", 16)
