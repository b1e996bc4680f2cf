"""What a record hashes: the text and the headers it includes, each once."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tilewright.bench.includes import code_of
from tilewright.build import headers
from tilewright.errors import InputError
from tilewright.include import cuda_headers

CUDA = "#include <cuda_fp16.h>\n#include <mma.h>\n"


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.cuh"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_without_includes_it_is_the_text() -> None:
    assert code_of("int x;\n") == "int x;\n"
    assert code_of(CUDA) == CUDA
    assert code_of("") == ""


def test_the_package_s_headers_with_what_they_include() -> None:
    text = '#include "ptx/mma.cuh"\n  #  include <tile/swizzle.cuh>\n'
    code = code_of(text)
    wanted, todo = set[str](), ["ptx/mma.cuh", "tile/swizzle.cuh"]
    while todo:
        name = todo.pop()
        wanted.add(name)
        inner = [line.split('"')[1] for line in headers()[name].splitlines() if "#include" in line]
        todo += set(inner) - wanted
    assert len(wanted) > 2  # mma.cuh includes another one
    assert code.startswith(text)
    assert len(code) == len(text) + sum(len(headers()[name]) + 1 for name in wanted)
    assert all(headers()[name] in code for name in wanted)


def test_a_name_of_the_package_is_the_package_s(tmp_path: Path) -> None:
    write(tmp_path, ptx__mma="int mine;")
    code = code_of('#include "ptx/mma.cuh"\n', [tmp_path])
    assert "int mine;" not in code
    assert headers()["ptx/mma.cuh"] in code


def test_each_once_in_the_order_met(tmp_path: Path) -> None:
    write(
        tmp_path,
        first='#pragma once\n#include "second.cuh"\nint first;',
        second='#pragma once\n#include "first.cuh"\nint second;',
        third="int third;",
    )
    text = f'{CUDA}#include "first.cuh"\n#include <third.cuh>\n#include "first.cuh"\n'
    names = ("first", "third", "second")
    texts = [(tmp_path / f"{name}.cuh").read_text() for name in names]
    assert code_of(text, [tmp_path]) == "\n".join([text, *texts])


def test_the_user_s_folders_in_their_order(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    write(one, both="int one;")
    write(two, both="int two;", only="int only;")
    text = '#include "both.cuh"\n#include "only.cuh"\n'
    assert code_of(text, [one, two]) == f"{text}\nint one;\nint only;"
    assert code_of(text, [two, one]) == f"{text}\nint two;\nint only;"
    assert code_of(text, [one]) == f"{text}\nint one;"
    assert code_of(text) == text


def test_a_header_beside_a_header(tmp_path: Path) -> None:
    write(
        tmp_path,
        deep__top='#include "side.cuh"\n#include "../up.cuh"\n#include "ptx/cvt.cuh"\nint top;',
        deep__side="int side;",
        up="int up;",
    )
    code = code_of('#include "deep/top.cuh"\n', [tmp_path])
    assert all(code.count(f"int {name};") == 1 for name in ("top", "side", "up"))
    assert headers()["ptx/cvt.cuh"] in code
    beside = '#include "side.cuh"\n'  # not beside the text itself
    assert code_of(beside, [tmp_path]) == beside


def test_beside_the_header_that_the_package_s_were_included_from(tmp_path: Path) -> None:
    """A header of the package in between does not change where the user's are looked for."""
    write(tmp_path, deep__top='#include "ptx/cvt.cuh"\n#include "side.cuh"', deep__side="int s;")
    assert code_of('#include "deep/top.cuh"\n', [tmp_path]).count("int s;") == 1


def test_the_working_folder_is_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").mkdir()
    write(tmp_path, x="int x;")
    monkeypatch.chdir(tmp_path)
    text = '#include "x.cuh"\n'
    assert code_of(text, [tmp_path / "own"]) == text


def test_one_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "bad.cuh").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"bad\.cuh"):
        code_of('#include "bad.cuh"\n', [tmp_path])


def test_what_is_no_include(tmp_path: Path) -> None:
    write(tmp_path, x="int x;")
    for text in ('// #include "x.cuh"\n', 'int y; #include "x.cuh"\n', "#include NAME\n"):
        assert code_of(text, [tmp_path]) == text


def test_cuda_s_folders_are_not_asked_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    cuda_headers.cache_clear()
    monkeypatch.setattr(importlib, "import_module", missing)
    assert cuda_headers() == ()
    monkeypatch.undo()
    assert cuda_headers() == ()
    cuda_headers.cache_clear()
