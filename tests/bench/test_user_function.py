"""`--kernel module:function`: what is found, what it takes, and what is no function."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from tilewright.bench.torch_peers import FunctionPeer
from tilewright.bench.user_function import FunctionKernel, kernel_named
from tilewright.bench.user_kernel import CudaKernel
from tilewright.errors import EngineError, InputError

MODULE = """
import functools
import operator

__version__ = "1.2"
number = 7
builtin = operator.matmul


def returns(a, b): ...
def fills(a, b, out): ...
def may_fill(a, b, *, out=None, alpha=1): ...
def one(a): ...
def three(a, b, c): ...
def three_and_out(a, b, c, out): ...
def words(a, b, *, alpha): ...
def anything(*args, **kwargs): ...
def out_first(out, a, b): ...
def out_alone(a, out): ...


class Deep:
    @staticmethod
    def gemm(a, b, out): ...

    class Er:
        @staticmethod
        def gemm(a, b): ...


class Callable:
    def __call__(self, a, b, out=None): ...


called = Callable()
bound = functools.partial(may_fill, alpha=2)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a module and a package of the user's; both forgotten afterwards."""
    (tmp_path / "tw_mine.py").write_text(MODULE, encoding="utf-8")
    package = tmp_path / "tw_pack"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '3.4'\n")
    (package / "part.py").write_text("def gemm(a, b): ...\n")
    (package / "broken.py").write_text("raise RuntimeError('no tile fits\\nand more')\n")
    (package / "wrong.py").write_text("def gemm(:\n")
    (package / "quits.py").write_text("raise SystemExit(3)\n")
    (package / "needs.py").write_text("import tw_nowhere\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in [name for name in sys.modules if name.startswith("tw_")]:
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
    return tmp_path


def found(word: str) -> FunctionKernel:
    kernel = kernel_named(word)
    assert isinstance(kernel, FunctionKernel)
    return kernel


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "takes_out"),
    [
        ("returns", False),
        ("fills", True),
        ("may_fill", True),
        ("anything", False),
        ("Deep.gemm", True),
        ("Deep.Er.gemm", False),
        ("called", True),
        ("bound", True),
    ],
)
def test_functions_and_their_out(name: str, takes_out: bool) -> None:
    kernel = found(f"tw_mine:{name}")
    assert (kernel.word, kernel.label) == (f"tw_mine:{name}",) * 2
    assert kernel.takes_out is takes_out
    assert kernel.version == "tw_mine 1.2"
    expected: Any = sys.modules["tw_mine"]
    for part in name.split("."):
        expected = getattr(expected, part)
    assert kernel.function is expected or kernel.function == expected


def test_the_working_folder_is_looked_in_once(folder: Path) -> None:
    assert str(folder) not in sys.path
    found("tw_mine:returns")
    found("tw_mine:fills")
    assert sys.path.count(str(folder)) == 1


@pytest.mark.usefixtures("folder")
def test_a_module_in_a_package_has_the_package_s_version() -> None:
    assert found("tw_pack.part:gemm").version == "tw_pack.part 3.4"
    assert found("operator:matmul").version == "operator of unknown version"


def test_builtins_without_signature_take_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.mm is one: inspect cannot say what it takes."""
    with (folder / "tw_mine.py").open("a") as file:
        file.write("\nclass Silent:\n    __signature__ = 'none'\n    def __call__(self): ...\n")
        file.write("silent = Silent()\n")
    assert found("tw_mine:silent").takes_out
    assert found("builtins:max").takes_out
    assert not found("tw_mine:builtin").takes_out  # operator.matmul tells (a, b, /)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("one", "too many positional arguments"),
        ("three", "missing a required argument: 'c'"),
        ("three_and_out", "missing a required argument: 'c'"),
        ("words", "missing a required (keyword-only )?argument: 'alpha'"),
        ("out_first", "multiple values for argument 'out'"),
        ("out_alone", "multiple values for argument 'out'"),
        ("Deep", "too many positional arguments"),
    ],
)
def test_what_does_not_take_two_matrices(name: str, why: str) -> None:
    with pytest.raises(
        InputError,
        match=rf"^kernel='tw_mine:{name}' must take \(a, b\) and return C, or take "
        rf"\(a, b, out\): {why}\.$",
    ):
        kernel_named(f"tw_mine:{name}")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("tw_none:gemm", "tw_none cannot be imported: ModuleNotFoundError: No module named "
         "'tw_none'."),
        ("tw_pack.none:gemm", "tw_pack.none cannot be imported: ModuleNotFoundError: No module "
         "named 'tw_pack.none'."),
        ("tw_pack.needs:gemm", "tw_pack.needs cannot be imported: ModuleNotFoundError: No module "
         "named 'tw_nowhere'."),
        ("tw_pack.broken:gemm", "tw_pack.broken cannot be imported: RuntimeError: no tile fits."),
        ("tw_mine:gone", "tw_mine has no gone."),
        ("tw_mine:Deep.gone", "tw_mine has no Deep.gone."),
        ("tw_mine:gone.gemm", "tw_mine has no gone.gemm."),
    ],
)  # fmt: skip
def test_what_is_not_there(word: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        kernel_named(word)
    assert str(error.value) == f"kernel={word!r}: {said}"


@pytest.mark.usefixtures("folder")
def test_modules_that_do_not_parse() -> None:
    with pytest.raises(InputError, match=r"tw_pack\.wrong cannot be imported: SyntaxError: .*\.$"):
        kernel_named("tw_pack.wrong:gemm")


@pytest.mark.usefixtures("folder")
def test_a_module_that_leaves_at_import() -> None:
    with pytest.raises(InputError, match="cannot be imported"):
        kernel_named("tw_pack.quits:gemm")


@pytest.mark.usefixtures("folder")
def test_what_is_no_function() -> None:
    with pytest.raises(
        InputError, match=r"^kernel='tw_mine:number' is of type int, not a function\.$"
    ):
        kernel_named("tw_mine:number")


def test_a_cuda_file_is_no_module(folder: Path) -> None:
    """It would be one by its looks: a package x with a module cu in it."""
    (folder / "x.cu").write_text("__global__ void gemm() {}\n")
    (folder / "x.cuh").write_text("__global__ void gemm() {}\n")
    (folder / "x").mkdir()
    (folder / "x" / "cu.py").write_text("def gemm(a, b): ...\n")
    for word in ("x.cu:gemm", "x.cuh:gemm", "x.cu:gemm,block=256", "./x.cu:gemm"):
        kernel = kernel_named(word)
        assert isinstance(kernel, CudaKernel)
        assert (kernel.word, kernel.name) == (word, "gemm")
    with pytest.raises(InputError, match=r"y\.cu"):
        kernel_named("y.cu:gemm")


@pytest.mark.parametrize("word", ["", "gemm", "mod:", ":gemm", "mod:a b", "mod:f:g", "1mod:f"])
def test_words_that_are_neither(word: str) -> None:
    with pytest.raises(InputError, match=r"must name a \.cu or \.cuh file and a kernel"):
        kernel_named(word)


def test_its_peer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def init(peer: FunctionPeer, engine: Any, name: str, make: Any, *rest: Any) -> None:
        made.append((engine, name, make(None), *rest))

    monkeypatch.setattr(FunctionPeer, "__init__", init)
    kernel, engine = found("tw_mine:fills"), object()
    assert isinstance(kernel.peer(engine), FunctionPeer)  # type: ignore[arg-type]
    assert made == [(engine, "tw_mine:fills", kernel.function, "tw_mine 1.2", True)]


def test_its_peer_needs_torch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EngineError, match=r"pip install 'tilewright\[torch\]'"):
        found("tw_mine:fills").peer(object())  # type: ignore[arg-type]
