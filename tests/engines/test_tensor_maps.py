"""Tensor maps on their way to the driver, with a driver that only listens."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tilewright.artifact import Artifact
from tilewright.engines.driver import Driver
from tilewright.engines.gpu import _config
from tilewright.engines.tensor_maps import _DTYPES, _ENCODE, TensorMapEncoder
from tilewright.errors import EngineError, InputError
from tilewright.launch import Launch
from tilewright.tensormap import ELEMENT_BYTES, TensorMap, tiled

driver = pytest.importorskip("cuda.bindings.driver", reason="the driver's bindings are missing")


class Listener(Driver):
    """The bindings' enumerations, and a function in place of cuTensorMapEncodeTiled."""

    def __init__(self, code: int = 0, known: bool = True) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.types: Any = SimpleNamespace(
            cuGetErrorString=lambda code: (0, b"invalid argument"),
            CUresult=driver.CUresult,
            **{name: getattr(driver, name) for name in dir(driver) if "CUtensorMap" in name},
        )

        def encode(out: int, *rest: Any) -> int:
            kind, rank, base, *lists = rest[:7]
            counts = (rank, rank - 1, rank, rank)
            shown = [tuple(numbers[:count]) for numbers, count in zip(lists, counts, strict=True)]
            self.calls.append((out, kind, rank, base, *shown, *rest[7:]))
            ctypes.memset(out, 0xA5, 128)
            return code

        self._function = _ENCODE(encode)
        self._known = known

    def __call__(self, function: str, *args: Any) -> Any:
        assert (function, args) == ("cuGetProcAddress", (b"cuTensorMapEncodeTiled", 12000, 0))
        address = ctypes.cast(self._function, ctypes.c_void_p).value
        return (address if self._known else 0, 0)


def example(**changes: Any) -> TensorMap:
    fields: dict[str, Any] = {
        "dtype": "bf16",
        "base": 0x7F00_0000_1000,
        "shape": (4096, 300),
        "strides": (8192,),
        "box": (64, 128),
        "swizzle": "128B",
        "l2_promotion": "256B",
    }
    return TensorMap(**(fields | changes))


def test_every_field_reaches_the_driver() -> None:
    heard = Listener()
    assert TensorMapEncoder(heard).encode(example(element_strides=(1, 2))) == b"\xa5" * 128
    ((out, *rest),) = heard.calls
    assert out % 64 == 0
    assert rest == [
        int(driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16),
        2,
        0x7F00_0000_1000,
        (4096, 300),
        (8192,),
        (64, 128),
        (1, 2),
        int(driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE),
        int(driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B),
        int(driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B),
        int(driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
    ]


def test_every_word_of_a_map_has_its_number() -> None:
    assert set(_DTYPES) == set(ELEMENT_BYTES)
    heard = Listener()
    encoder = TensorMapEncoder(heard)
    for dtype in ELEMENT_BYTES:
        encoder.encode(example(dtype=dtype, box=(16, 8), swizzle="none"))
    assert len({call[1] for call in heard.calls}) == len(ELEMENT_BYTES)
    for swizzle, inner in (("none", 64), ("32B", 16), ("64B", 32), ("128B", 64)):
        encoder.encode(example(swizzle=swizzle, box=(inner, 16)))
    for promotion in ("none", "64B", "128B", "256B"):
        encoder.encode(example(l2_promotion=promotion, box=(64, 32)))
    encoder.encode(example(oob_fill="nan"))
    one_dimension = example(shape=(64,), strides=(), box=(64,))
    encoder.encode(one_dimension)
    thick = {"shape": (8, 8, 8), "strides": (128, 1024), "box": (8, 2, 2), "swizzle": "none"}
    encoder.encode(example(interleave="16B", **thick))
    assert [call[9] for call in heard.calls[13:17]] == [0, 1, 2, 3]  # by the driver's header
    assert [call[10] for call in heard.calls[17:21]] == [0, 1, 2, 3]
    assert heard.calls[21][11] == 1
    assert heard.calls[-1][8] == 1


def test_a_map_is_encoded_once() -> None:
    heard = Listener()
    encoder = TensorMapEncoder(heard)
    for _ in range(3):
        encoder.encode(example())
        encoder.encode(example(base=0x1000))
        encoder.encode(example(box=(64, 64)))
    assert len(heard.calls) == 3


def test_refusals_are_sentences() -> None:
    with pytest.raises(
        EngineError,
        match=r"cuTensorMapEncodeTiled failed with CUDA_ERROR_INVALID_VALUE \(invalid argument\)\. "
        r"It was given TensorMap\(dtype='bf16'",
    ):
        TensorMapEncoder(Listener(code=1)).encode(example())
    with pytest.raises(EngineError, match="older than CUDA 12"):
        TensorMapEncoder(Listener(known=False)).encode(example())
    host = tiled(np.zeros((16, 64), np.float16), (16, 64))
    with pytest.raises(InputError, match="upload it and give tensor_map"):
        TensorMapEncoder(Listener()).encode(host)


def test_a_launch_with_a_cluster_that_overlaps_has_both_attributes() -> None:
    launch = Launch(
        cast(Artifact, None),
        "gemm",
        (8, 1, 1),
        (128, 1, 1),
        (),
        shared_bytes=1024,
        cluster=(2, 1, 1),
        overlap=True,
    )
    config = _config(driver, launch, 0)
    assert config.numAttrs == len(config.attrs) == 2
    cluster, overlap = config.attrs
    assert (cluster.value.clusterDim.x, cluster.value.clusterDim.z) == (2, 1)
    assert overlap.id.name.endswith("PROGRAMMATIC_STREAM_SERIALIZATION")
    assert overlap.value.programmaticStreamSerializationAllowed == 1
    assert _config(driver, replace(launch, cluster=(1, 1, 1), overlap=False), 0).numAttrs == 0
