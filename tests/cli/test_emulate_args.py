"""Arguments in words: what they make and the sentences for what they are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.cli import emulate_args
from tilewright.cli.emulate_args import DTYPES, make, parse_argument, parse_arguments, parse_shape
from tilewright.cli.emulate_parameters import check_parameters
from tilewright.emulator.ir import Kernel, Parameter
from tilewright.errors import InputError
from tilewright.kernel_signature import Formal


def made(word: str, seed: int = 0) -> Any:
    return make(parse_argument(f"x={word}"), seed)


def bits(value: Any) -> bytes:
    raw: bytes = np.ascontiguousarray(value).tobytes()
    return raw


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("+5", 5),
        ("0xfF", 255),
        ("-0x10", -16),
        ("1.5", 1.5),
        ("-.5", -0.5),
        ("1e-3", 1e-3),
        ("inf", float("inf")),
        ("-inf", float("-inf")),
        ("null", None),
        ("bytes:0000803f", b"\0\0\x80\x3f"),
    ],
)
def test_values_that_are_no_arrays(word: str, value: Any) -> None:
    got = made(word)
    assert got == value
    assert type(got) is type(value)


def test_nan_and_numbers_of_a_type() -> None:
    assert np.isnan(made("nan"))
    assert bits(made("1.5:fp16")) == bits(np.float16(1.5))
    assert bits(made("-1.0:bf16")) == b"\x80\xbf"
    assert bits(made("200:u8")) == b"\xc8"


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type(dtype: str) -> None:
    pytest.importorskip("ml_dtypes")
    zeros, ones = made(f"zeros:3x4:{dtype}"), made(f"ones:3x4:{dtype}")
    assert zeros.dtype == ones.dtype
    assert zeros.shape == (3, 4)
    assert zeros.flags.c_contiguous
    assert zeros.flags.writeable
    assert not zeros.astype(np.float64).any()
    assert (ones.astype(np.float64) == 1).all()
    assert (made(f"arange:2:{dtype}").astype(np.float64) == [0, 1]).all()
    assert set(bits(made(f"empty:5:{dtype}"))) == {0xFF}
    assert len(set(bits(made(f"uniform:64:{dtype}")))) > 1
    width = {"bool": 8, "e4m3": 8, "e5m2": 8}.get(dtype) or int(dtype.lstrip("bfpiu"))
    assert zeros.dtype.itemsize * 8 == width


def test_fills() -> None:
    assert made("randn:7").dtype == np.float32
    assert made("full(1.5):2x3:fp16").tolist() == [[1.5] * 3] * 2
    assert np.isnan(made("full(nan):2")).all()
    assert made("full(-inf):2:fp64").tolist() == [-np.inf] * 2
    assert made("full(18446744073709551615):1:u64")[0] == 2**64 - 1
    assert made("full(99999999999999999999):1:fp64")[0] == 1e20
    assert float(made("99999999999999999999:bf16")) == pytest.approx(1e20, rel=0.01)
    assert made("arange:2x3:i32").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.isnan(made("empty:4:bf16").astype(np.float32)).all()
    uniform = made("uniform:1000")
    assert -1 <= uniform.min() < -0.9
    assert 0.9 < uniform.max() < 1
    signed = made("uniform:1000:i8")
    assert signed.min() < -120
    assert signed.max() > 120
    assert abs(float(made("randn:10000").std()) - 1) < 0.05
    assert made("zeros:3:float16").dtype == np.float16


def test_random_numbers_depend_on_the_seed_and_the_label_alone() -> None:
    words = ["a=randn:8x8", "b=randn:8x8"]
    a, b = (make(argument, 3) for argument in parse_arguments(words))
    c, again = (make(argument, 3) for argument in parse_arguments(["c=randn:8x8", "b=randn:8x8"]))
    assert bits(b) == bits(again)
    assert bits(a) != bits(b) != bits(c)
    assert bits(make(parse_argument("a=randn:8x8"), 4)) != bits(a)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("", "write LABEL=VALUE"),
        ("=5", "write LABEL=VALUE"),
        ("a b=5", "write LABEL=VALUE"),
        ("1a=5", "write LABEL=VALUE"),
        ("é=5", "write LABEL=VALUE"),
        ("a", "write LABEL=VALUE"),
        ("a=", "is not known; a value is randn"),
        ("a=rand:3", "'rand' is not known; did you mean randn?"),
        ("a=RANDN:3", "is not known"),
        ("a=randn", "the shape is missing, as in a=randn:256x128:bf16"),
        ("a=randn:", "the shape is missing"),
        ("a=randn:3x", "'3x' is not a shape"),
        ("a=randn:x", "is not a shape"),
        ("a=randn:-3", "is not a shape"),
        ("a=randn:3.5", "is not a shape"),
        ("a=randn:٣", "is not a shape"),
        ("a=zeros:1x1x1x1x1x1x1x1x1", "1 to 8 extents"),
        ("a=randn:3:fp17", "'fp17' is not a type; use fp16, bf16"),
        ("a=randn:3:", "'' is not a type"),
        ("a=randn:3:fp16:1", "is not a type"),
        ("a=randn:3:i32", "randn makes floats"),
        ("a=randn(1):3", "randn takes no value"),
        ("a=full:3", "full needs its value"),
        ("a=full(x):3", "'x' is not a number"),
        ("a=full():3", "'' is not a number"),
        ("a=full(2.5):3:i32", "2.5 is not a whole number from -2147483648 to"),
        ("a=full(256):3:u8", "256 is not a whole number from 0 to 255"),
        ("a=full(nan):3:u8", "nan is not a whole number"),
        ("a=full(2):3:bool", "from 0 to 1"),
        ("a=300:i8", "300 is not a whole number from -128 to 127"),
        ("a=5:", "'' is not a type"),
        ("a=1e999", "write inf"),
        ("a=" + "9" * 5000, "is not known"),
        ("a=0x" + "f" * 17, "is not known"),
        ("a=--inf", "is not known"),
        ("a=1_000", "is not known"),
        ("a=bytes:", "pairs of hexadecimal digits"),
        ("a=bytes:abc", "pairs of hexadecimal digits"),
        ("a=bytes:zz", "pairs of hexadecimal digits"),
        ("a=null:3", "is not known"),
        ("a=load:", "the file is missing, as in load:x.npy"),
        ("a=load::bf16", "the file is missing"),
        ("a=zeros:0x999999999999x999999999999", "GiB"),
        ("a=load:x.npz", "must be a .npy file"),
        ("a=load:/nonexistent/x.npy", "No such file"),
        ("a=load:\0.npy", "is not a usable .npy file"),
        ("a=randn:\n\x1b[31m", "is not a shape"),
        ("a=full(99999999999999999999):3:u64", "99999999999999999999 is not a whole number"),
        ("a=zeros:999999999999x999999999999", "GiB"),
    ],
)  # fmt: skip
def test_words_that_are_no_arguments(word: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_arguments([word])
    message = str(raised.value)
    assert said in message
    assert len(message) < 400
    assert message.isprintable()


def test_a_label_is_given_once() -> None:
    with pytest.raises(InputError, match="--arg a is given twice"):
        parse_arguments(["a=1", "b=2", "a=3"])


def test_too_much_is_refused_in_sum() -> None:
    with pytest.raises(InputError, match="take 6 GiB; the emulator takes 4 GiB"):
        parse_arguments([f"{label}=zeros:1048576x512" for label in "abc"])


def test_bf16_without_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(InputError, match="pip install ml_dtypes"):
        parse_argument("a=zeros:3:bf16")


# --- Files ------------------------------------------------------------------------------


def loaded(path: Path, suffix: str = "") -> Any:
    return made(f"load:{path}{suffix}")


def test_files_become_plain_arrays(tmp_path: Path) -> None:
    path = tmp_path / "a:b=c.npy"
    for array in (
        np.arange(6, dtype="f4").reshape(2, 3).T,
        np.arange(6, dtype=">i2").reshape(2, 3),
        np.array([True, False]),
    ):
        np.save(path, array)
        got = loaded(path)
        assert (got == array).all()
        assert got.dtype.isnative
        assert got.flags.c_contiguous
        assert got.flags.writeable


def test_a_file_of_another_type(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    path = tmp_path / "a.npy"
    array = np.arange(6, dtype=np.float32).astype(ml_dtypes.bfloat16)
    np.save(path, array)
    with pytest.raises(InputError, match=r"say what it is, as in load:.*npy:bf16"):
        loaded(path)
    assert (loaded(path, ":bf16") == array).all()
    with pytest.raises(InputError, match="holds 2 bytes an element; float32 has 4"):
        loaded(path, ":fp32")
    with pytest.raises(InputError, match="is not a type"):
        loaded(path, ":fp17")


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.array([{}], dtype=object))
    with pytest.raises(InputError, match=r"not a usable \.npy file: Object arrays"):
        loaded(path)
    good = tmp_path / "good.npy"
    np.save(good, np.zeros((3, 4)))
    raw = good.read_bytes()
    for content in (b"", b"hello", raw[:40], raw[:-1], raw.replace(b"(3, 4)", b"(3, x)"),
                    raw.replace(b"(3, 4)", b"(9**9)"), raw.replace(b"<f8", b"<q9"),
                    raw.replace(b"(3, 4)", b"((((((")):  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(InputError, match="not a usable"):
            loaded(path)
    for array, said in ((np.zeros(()), "a single number; save an array"),
                        (np.zeros(3, complex), "complex128"), (np.array(["a"]), "<U1"),
                        (np.zeros(3, "i4,f4"), "say what it is")):  # fmt: skip
        np.save(path, array)
        with pytest.raises(InputError, match=said):
            loaded(path)
    folder = tmp_path / "folder.npy"
    folder.mkdir()
    with pytest.raises(InputError, match=r"directory|denied"):
        loaded(folder)


@pytest.mark.parametrize("fill", ["randn", "uniform", "zeros", "arange", "empty", "full(2)"])
def test_no_elements(fill: str, tmp_path: Path) -> None:
    made = make(parse_arguments([f"a={fill}:0x4"])[0], 1)
    assert (made.shape, made.dtype) == ((0, 4), np.float32)
    np.save(tmp_path / "a.npy", made)
    assert loaded(tmp_path / "a.npy").shape == (0, 4)


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        file.truncate(emulate_args.MOST_BYTES + 1)
    with pytest.raises(InputError, match="larger than 4 GiB"):
        loaded(path)


def test_shapes() -> None:
    assert parse_shape("--shape c", "256x128x3") == (256, 128, 3)
    with pytest.raises(InputError, match="--shape c: 'a' is not a shape"):
        parse_shape("--shape c", "a")


def test_a_tensor_map_has_no_word() -> None:
    """An array that stands for one is told where maps are made."""
    kernel = Kernel("k", [Parameter("k_param_0", "b8", 0, 128)])
    formal = Formal("map", "const __grid_constant__ CUtensorMap")
    with pytest.raises(InputError, match=r"tilewright\.emulate with tilewright\.tensormap\.tiled"):
        check_parameters(kernel, [parse_argument("map=ones:8x64")], [formal])
