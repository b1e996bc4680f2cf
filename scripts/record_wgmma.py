"""Records what wgmma does on a GPU: the bytes of shared memory that descriptors name, and sums.

python scripts/record_wgmma.py OUT.npz                     # on an H100, H200 or another sm_90a
python scripts/record_wgmma.py OUT.npz --engine emulator   # the same by the emulator, to try it
python scripts/record_wgmma.py OUT.npz --odd               # adds what may fault, each in a process

Probes find the place of every element without an assumption about descriptors: shared memory holds
a different number in each element, and the other operand is the unit matrix, so that the product
is the operand as the hardware read it. Sums have random operands. OUT.npz goes to
tests/data/silicon/wgmma.npz, against which tests/emulator/test_silicon_wgmma.py runs the emulator.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

IMAGE_BYTES = 65536  # of shared memory, filled before the product
UNIT_AT = 61440  # where a unit matrix lies in it, K-major without a swizzle
BITS = {
    **{"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1},
}
SEED = 20261130


# --- the instructions -------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """One wgmma.mma_async: types, n, where a comes from, which are transposed or negated."""

    d: str
    a: str
    b: str
    n: int
    a_in_registers: bool = False
    a_along_m: bool = False
    b_along_n: bool = False
    signs: tuple[int, int] = (1, 1)
    saturate: bool = False

    @property
    def k(self) -> int:
        return 256 // BITS[self.a]

    @property
    def registers(self) -> int:
        return self.n // 4 if self.d == "f16" else self.n // 2

    @property
    def name(self) -> str:
        words = [self.d, self.a, self.b, f"n{self.n}"]
        words += ["r" * self.a_in_registers + "m" * self.a_along_m + "k" * self.b_along_n]
        words += ["p" if self.signs[0] > 0 else "m", "p" if self.signs[1] > 0 else "m"]
        return "w_" + "_".join(word for word in [*words, "sat" * self.saturate] if word)

    @property
    def opcode(self) -> str:
        kinds = f".{self.d}.{self.a}.{self.b}"
        end = ".and.popc" if self.a == "b1" else ".satfinite" * self.saturate
        return f"wgmma.mma_async.sync.aligned.m64n{self.n}k{self.k}{kinds}{end}"


def kernel_text(form: Form) -> str:
    """CUDA C++: each block multiplies with its own two descriptors and stores all registers."""
    count = form.registers
    is_float = form.d == "f32"
    d = [f"%{i}" for i in range(count)]
    a = [f"%{count + i}" for i in range(4 if form.a_in_registers else 1)]
    b, scale = f"%{count + len(a)}", f"%{count + len(a) + 1}"
    first = f"{{{', '.join(a)}}}" if form.a_in_registers else a[0]
    rest = ["p"]
    if form.d != "s32":
        rest += [str(sign) for sign in form.signs]
    if BITS[form.a] == 16:
        rest += [] if form.a_in_registers else [str(int(form.a_along_m))]
        rest += [str(int(form.b_along_n))]
    text = f"{form.opcode} {{{', '.join(d)}}}, {first}, {b}, {', '.join(rest)};"
    outs = ", ".join(f'"+{"f" if is_float else "r"}"(d[{i}])' for i in range(count))
    sources = (
        ", ".join(f'"r"(a[{i}])' for i in range(4)) if form.a_in_registers else '"l"(descs[0])'
    )
    kind = "float" if is_float else "unsigned"
    value = "__uint_as_float" if is_float else ""
    word = "__float_as_uint" if is_float else ""
    return f"""
extern "C" __global__ void {form.name}(const uint4* image, const unsigned long long* given,
    const unsigned* fragments, const unsigned* sums, unsigned* out, int scale) {{
  extern __shared__ __align__(1024) unsigned char smem[];
  int lane = threadIdx.x, block = blockIdx.x;
  for (int i = lane; i < {IMAGE_BYTES // 16}; i += 128)
    reinterpret_cast<uint4*>(smem)[i] = image[i];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  unsigned long long base = __cvta_generic_to_shared(smem) >> 4, descs[2];
  for (int i = 0; i < 2; i++) descs[i] = given[2 * block + i] + base;
  {kind} d[{count}];
  [[maybe_unused]] unsigned a[4];
  for (int i = 0; i < {count}; i++) d[i] = {value}(sums[(block * {count} + i) * 128 + lane]);
  for (int i = 0; i < 4; i++) a[i] = fragments[(block * 4 + i) * 128 + lane];
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("{{ .reg .pred p; setp.ne.b32 p, {scale}, 0;\\n{text} }}"
               : {outs} : {sources}, "l"(descs[1]), "r"(scale));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < {count}; i++) out[(block * {count} + i) * 128 + lane] = {word}(d[i]);
}}
"""


# --- descriptors ------------------------------------------------------------------------

NONE, B128, B64, B32 = 0, 1, 2, 3
LINE = {NONE: 16, B128: 128, B64: 64, B32: 32}  # bytes of a row of an atom


@dataclass(frozen=True)
class Desc:
    """The fields of a matrix descriptor, in bytes but for `base` (3 bits) and `swizzle`."""

    start: int
    leading: int
    stride: int
    swizzle: int
    base: int = 0

    @property
    def bits(self) -> int:
        fields = self.start >> 4 | self.leading >> 4 << 16 | self.stride >> 4 << 32
        return fields | self.base << 49 | self.swizzle << 62


def last_byte(desc: Desc, extent: int, elements_along: bool) -> int:
    """No byte beyond this is read, whatever is believed of descriptors."""
    reach = max(desc.leading, desc.stride, LINE[desc.swizzle], 128)
    pieces = extent * 2 // LINE[desc.swizzle] if elements_along else extent // 8
    far = pieces * max(desc.leading, desc.stride) + 2 * reach
    return desc.start + far + 8 * LINE[desc.swizzle] + 1024


def descriptors(extent: int, along: bool, swizzle: int, many: int) -> list[Desc]:
    """Plain ones first, then all that differs from them in one field, then random ones."""
    line = LINE[swizzle]
    if along and swizzle == NONE:  # k in two halves, 8 elements a piece
        plain = Desc(0, 128, 256, swizzle)
    elif along:
        plain = Desc(0, 16 * line, 8 * line, swizzle)
    elif swizzle == NONE:
        plain = Desc(0, 128, 256, swizzle)
    else:
        plain = Desc(0, 16, 8 * line, swizzle)
    found = [plain]
    found += [replace(plain, start=at) for at in (16, 32, 48, 64, 96, 112, 128, 256, 512, 1024)]
    found += [replace(plain, leading=to) for to in (0, 16, 48, 128, 1024, 2064, 4096)]
    found += [replace(plain, stride=to) for to in (0, 16, 128, 240, 512, 1040, 2048)]
    found += [replace(plain, base=to) for to in range(1, 8)]
    found += [replace(plain, start=128 * to, base=to) for to in range(1, 8)]
    found += [replace(plain, start=1024 + 32, base=to) for to in (1, 4)]
    rng = np.random.default_rng((SEED, extent, along, swizzle))
    while len(found) < many + 200:
        start, leading, stride = (
            16 * int(rng.choice([0, 1, 2, 4, 8, 16, 32, 64, int(rng.integers(256))]))
            for _ in range(3)
        )
        base = int(rng.integers(8)) if rng.random() < 0.3 else 0
        found.append(Desc(start, leading, stride, swizzle, base))
    fits = [desc for desc in found if last_byte(desc, extent, along) <= UNIT_AT]
    return list(dict.fromkeys(fits))[:many]


# --- operands ---------------------------------------------------------------------------


def unit_fragments(form: Form) -> Array:
    """Registers [4, 128] of a with 1 where m % k == k: PTX ISA, the fragment of matrix A."""
    bits = BITS[form.a]
    per = 32 // bits
    register, lane, i = np.ogrid[:4, :128, :per]
    row = lane // 32 * 16 + lane % 32 // 4 + 8 * (register % 2) + 0 * i
    column = per * (lane % 4) + i + 4 * per * (register // 2)
    one = {"f16": 0x3C00, "bf16": 0x3F80, "tf32": 0x3F800000, "u8": 1, "s8": 1}[form.a]
    ones = np.where(row % form.k == column, np.uint64(one), np.uint64(0))
    words: Array = (ones << (bits * i).astype("u8")).sum(-1).astype("u4")
    return words


def unit_image(form: Form) -> Array:
    """Bytes of a unit matrix k × k, K-major in 8 rows of 16 bytes; see `UNIT`."""
    size = BITS[form.b] // 8
    n, k = np.ogrid[: form.k, : form.k]
    at = n % 8 * 16 + n // 8 * 256 + k * size % 16 + k * size // 16 * 128
    one = {"f16": 0x3C00, "tf32": 0x3F800000, "u8": 1}[form.b]
    room = np.zeros(4096 // size, f"u{size}")
    room[at // size] = np.where(n == k, one, 0)
    return room.view("u1")


UNIT = Desc(UNIT_AT, 128, 256, NONE)


def numbered_image(kind: str, high: bool) -> Array:
    """Bytes in which every element says which one it is (u8: the low or the high byte of it)."""
    size = BITS[kind] // 8
    index = np.arange(IMAGE_BYTES // size)
    if kind == "f16":  # all finite values but −0, as bits
        return (
            np.where(index < 0x7C00, index, (index - 0x7C00 + 1) | 0x8000).astype("u2").view("u1")
        )
    if kind == "tf32":
        return ((index + 0x10000) << 13).astype("u4").view("u1")
    return (index >> 8 if high else index & 255).astype("u1")


def numbers(kind: str, words: Array) -> Array:
    """Which element of `numbered_image` each sum is; of u8 one byte of that."""
    if kind == "f16":
        code = words.view("f4").astype("f2").view("u2").astype("i8")
        return np.where(code < 0x8000, code, (code & 0x7FFF) - 1 + 0x7C00)
    if kind == "tf32":
        return (words.astype("i8") >> 13) - 0x10000
    return words.astype("i8")


def random_bytes(kind: str, rng: np.random.Generator, wild: bool = False) -> Array:
    """Bytes of a whole image of finite elements; `wild`: of any bits at all."""
    size = max(1, BITS[kind] // 8)
    count = IMAGE_BYTES // size
    bits = rng.integers(0, 1 << 8 * size, count, dtype=f"u{size}")
    exponents = {"f16": (10, 10, 6), "bf16": (7, 122, 8), "tf32": (23, 122, 8),
                 "e4m3": (3, 3, 8), "e5m2": (2, 10, 8)}  # fmt: skip
    if kind in exponents and not wild:
        mantissa, least, range_ = exponents[kind]
        exponent = rng.integers(least, least + range_, count).astype(bits.dtype)
        top = bits.dtype.type(1 << 8 * size - 1)
        fraction = bits & bits.dtype.type((1 << mantissa) - 1)
        bits = (bits & top) | (exponent << bits.dtype.type(mantissa)) | fraction
    return bits.view("u1")


def small_bytes(kind: str, rng: np.random.Generator) -> Array:
    """Bytes of an image of small whole numbers, whose sums are exact."""
    values = rng.integers(-4, 5, IMAGE_BYTES // (BITS[kind] // 8))
    if kind == "f16":
        return values.astype("f2").view("u1")
    if kind == "bf16":
        return (values.astype("f4").view("u4") >> 16).astype("u2").view("u1")
    if kind == "tf32":
        return values.astype("f4").view("u1")
    if kind in ("s8", "u8"):
        return (values & (255 if kind == "s8" else 7)).astype("u1").view("u1")
    table = (
        {0: 0, 1: 8, 2: 16, 3: 20, 4: 24} if kind == "e4m3" else {0: 0, 1: 4, 2: 8, 3: 10, 4: 12}
    )
    code = np.vectorize(table.get)(np.abs(values)) + (52 if kind == "e5m2" else 48)
    code = np.where(values == 0, 0, code) | np.where(values < 0, 128, 0)
    return code.astype("u1")


# --- the cases --------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One launch. `image`, `descs` [blocks, 2], `fragments` and `sums` are its inputs."""

    name: str
    form: Form
    descs: Array
    image: Array
    fragments: Array
    sums: Array
    scale: int = 1


def _probe(name: str, form: Form, found: list[Desc], of_b: bool, high: bool = False) -> Case:
    kind = form.b if of_b else form.a
    image = numbered_image(kind, high)
    image[UNIT_AT:] = unit_image(form) if not of_b else image[UNIT_AT:]
    pairs = [(0, each.bits) if of_b else (each.bits, UNIT.bits) for each in found]
    fragments = np.zeros((len(found), 4, 128), "u4")
    if of_b:
        fragments[:] = unit_fragments(form)
    sums = np.zeros((len(found), form.registers, 128), "u4")
    return Case(name, form, np.array(pairs, "u8"), image, fragments, sums)


def probes() -> Iterator[tuple[Case, ...]]:
    """Each alone, or of u8 the low and the high bytes of the elements' numbers."""
    for swizzle in (NONE, B128, B64, B32):
        for along in (False, True):
            where = f"{'mn' if along else 'k'}_{LINE[swizzle] if swizzle else 0}"
            for n, many in ((64, 96), (8, 24), (24, 24), (256, 24)):
                form = Form("f32", "f16", "f16", n, a_in_registers=True, b_along_n=along)
                found = descriptors(n, along, swizzle, many)
                yield (_probe(f"b_f16_{where}_n{n}", form, found, of_b=True),)
            form = Form("f32", "f16", "f16", 16, a_along_m=along)
            found = descriptors(64, along, swizzle, 96)
            yield (_probe(f"a_f16_{where}", form, found, of_b=False),)
        where = f"k_{LINE[swizzle] if swizzle else 0}"
        found = descriptors(64, False, swizzle, 48)
        b, a = Form("f32", "tf32", "tf32", 64, a_in_registers=True), Form("f32", "tf32", "tf32", 8)
        yield (_probe(f"b_tf32_{where}_n64", b, found, of_b=True),)
        yield (_probe(f"a_tf32_{where}", a, found, of_b=False),)
        b, a = Form("s32", "u8", "u8", 64, a_in_registers=True), Form("s32", "u8", "u8", 32)
        yield tuple(_probe(f"b_u8_{where}_n64", b, found, True, high) for high in (False, True))
        yield tuple(_probe(f"a_u8_{where}", a, found, False, high) for high in (False, True))


TYPES = (
    *(("f32", kind, kind) for kind in ("f16", "bf16", "tf32")),
    *((d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    ("f16", "f16", "f16"),
    *(("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")),
    ("s32", "b1", "b1"),
)


def _sum(name: str, form: Form, image: Array, rng: np.random.Generator, **how: Any) -> Case:
    """2 blocks, with operands in other places of the image; K-major without a swizzle."""
    blocks = 2
    places = [(4096 * i, 16384 + 8192 * i) for i in range(blocks)]
    pairs = [[Desc(at, 128, 256, NONE).bits for at in both] for both in places]
    words = image.view("u4").reshape(-1)
    fragments = rng.choice(words, (blocks, 4, 128))
    shape = (blocks, form.registers, 128)
    if form.d == "f32":
        sums = rng.choice(random_bytes("tf32", rng).view("u4"), shape)
    elif form.d == "f16":
        sums = rng.choice(random_bytes("f16", rng).view("u4"), shape)
    else:
        sums = rng.integers(0, 1 << 32, shape, dtype="u4")
    if form.saturate:  # so near to the limits that some sums leave them
        sums = np.where(sums >> 31, 0x80000000 + (sums & 0xFFFF), 0x7FFFFFFF - (sums & 0xFFFF))
    if how.pop("exact", False):
        sums = np.zeros(shape, "u4")
    return Case(name, form, np.array(pairs, "u8"), image, fragments, sums.astype("u4"), **how)


def sums() -> Iterator[Case]:
    """Random operands: how products are added up, and where the registers of d lie."""
    for number, (d, a, b) in enumerate(TYPES):
        rng = np.random.default_rng((SEED, 1, number))
        image = random_bytes(a, rng)
        image[16384:] = random_bytes(b, rng)[16384:]
        for in_registers in (False, True):
            form = Form(d, a, b, 8, a_in_registers=in_registers)
            yield _sum(f"sum_{form.name}", form, image, rng)
        form = Form(d, a, b, 8)
        yield _sum(f"fresh_{form.name}", form, image, rng, scale=0)
        if d != "s32" and a == b:
            for signs in ((-1, 1), (1, -1), (-1, -1)):
                form = Form(d, a, b, 8, signs=signs)
                yield _sum(f"sum_{form.name}", form, image, rng)
            wild = random_bytes(a, rng, wild=True)
            yield _sum(f"wild_{form.name}", Form(d, a, b, 8), wild, rng)
        if d == "s32" and a != "b1":
            form = Form(d, a, b, 8, saturate=True)
            yield _sum(f"sum_{form.name}", form, image, rng)
    for kind, d in (("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("s8", "s32")):
        for n in (24, 64, 128, 256):
            rng = np.random.default_rng((SEED, 2, n))
            form = Form(d, kind, kind, n)
            yield _sum(f"exact_{form.name}", form, small_bytes(kind, rng), rng, exact=True)


# --- running ----------------------------------------------------------------------------


def source() -> str:
    forms = {case.form for cases in probes() for case in cases} | {case.form for case in sums()}
    return "".join(kernel_text(form) for form in sorted(forms, key=lambda form: form.name))


class Runner:
    """Launches cases on an engine; all kernels are in one artifact for sm_90a."""

    def __init__(self, engine: str, text: str | None = None) -> None:
        from tilewright.build import Source, build
        from tilewright.engines.choose import open_engine

        self.engine: Any = open_engine(engine)
        self.artifact = build(Source("wgmma.cu", source() if text is None else text), "sm_90a")

    def run(self, case: Case) -> Array:
        """The registers of d, uint32 [blocks, registers, 128]."""
        from tilewright.launch import Launch

        given = (case.image, case.descs, case.fragments, case.sums)
        buffers = [self.engine.upload(np.ascontiguousarray(each)) for each in given]
        buffers.append(self.engine.upload(np.zeros_like(case.sums)))
        params = [np.uint64(buffer.address).tobytes() for buffer in buffers]
        params.append(np.int32(case.scale).tobytes())
        grid = (len(case.descs), 1, 1)
        self.engine.launch(
            Launch(self.artifact, case.form.name, grid, (128, 1, 1), tuple(params), IMAGE_BYTES)
        )
        found: Array = self.engine.download(buffers[-1])
        return found


def matrix(form: Form, words: Array) -> Array:
    """d [blocks, 64, n] of 32-bit sums. PTX ISA: the fragment of matrix D."""
    register, lane = np.ogrid[: form.registers, :128]
    row = lane // 32 * 16 + lane % 32 // 4 + 8 * (register // 2 % 2)
    column = register // 4 * 8 + lane % 4 * 2 + register % 2
    found = np.zeros((len(words), 64, form.n), words.dtype)
    found[:, row, column] = words
    return found


def places(case: Case, words: Array) -> Array:
    """Of a probe the number of the element that each place [extent, k] of the operand was."""
    of_b = case.form.a_in_registers
    found = matrix(case.form, words)
    found = found[:, : case.form.k].swapaxes(1, 2) if of_b else found
    return numbers(case.form.b if of_b else case.form.a, np.ascontiguousarray(found))


def probed(runner: Runner, cases: tuple[Case, ...]) -> dict[str, Array]:
    """The places of an operand's elements, uint16, by name.

    `.pieces`: of the first element of every 16 bytes, in units of 16 bytes, [descriptors, extent,
    2] or, where the operand lies along its extent, [descriptors, extent / 8, k]. `.places`: of
    every element, [descriptors, extent, k], where not all 16 bytes belong together.
    """
    case = cases[0]
    found = sum(places(each, runner.run(each)) << 8 * i for i, each in enumerate(cases))
    assert isinstance(found, np.ndarray)  # there is at least one case
    per = 128 // BITS[case.form.a]
    along = case.form.a_along_m or case.form.b_along_n
    rows = found.swapaxes(1, 2) if along else found
    parts = rows.reshape(*rows.shape[:2], -1, per)
    whole = (parts == parts[..., :1] + np.arange(per)).all() and (parts[..., 0] % per == 0).all()
    if not whole:
        return {f"{case.name}.places": found.astype("u2")}
    pieces = (parts[..., 0] // per).astype("u2")
    return {f"{case.name}.pieces": pieces.swapaxes(1, 2) if along else pieces}


def record(engine: str, first: int = 0) -> dict[str, Array]:
    """All cases from number `first` on, up to one that fails: it is `failed` in "about"."""
    runner = Runner(engine)
    kept: dict[str, Array] = {"ptx": np.frombuffer(runner.artifact.ptx.encode(), "u1")}
    about: dict[str, Any] = {"engine": runner.engine.title, "arch": "sm_90a", "seed": SEED}
    about |= {"compiler": _compiler(), "next": None, "failed": None}
    work = [*probes(), *((case,) for case in sums())]
    for number, cases in enumerate(work[first:], first):
        name = cases[0].name
        try:
            is_sum = name.split("_")[0] not in ("a", "b")
            of_sum = {f"{name}.out": runner.run(cases[0])} if is_sum else {}
            kept |= of_sum or probed(runner, cases)
        except Exception as error:  # told in the file; a GPU's context is lost with it
            about |= {"failed": f"{name}: {error}", "next": number + 1}
            break
    kept["about"] = np.frombuffer(json.dumps(about).encode(), "u1")
    return kept


def record_all(engine: str, out: Path) -> dict[str, Array]:
    """All cases, in a new process after each that fails."""
    kept: dict[str, Array] = {}
    about: dict[str, Any] = {}
    missing: list[str] = []
    first: int | None = 0
    while first is not None:
        part = out.with_suffix(f".{first}.npz")
        command = [sys.executable, __file__, str(part), "--engine", engine, "--first", str(first)]
        subprocess.run(command, check=True)
        with np.load(part, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
        part.unlink()
        about = json.loads(found.pop("about").tobytes())
        first = about.pop("next")
        if failed := about.pop("failed"):
            missing.append(failed)
        kept |= found
    about["missing"] = missing
    print(json.dumps(about, indent=1))
    return {**kept, "about": np.frombuffer(json.dumps(about).encode(), "u1")}


def _compiler() -> str:
    from tilewright.nvrtc import compiler

    return compiler()


# --- what may fault ---------------------------------------------------------------------

_B = Form("f32", "f16", "f16", 64, a_in_registers=True)
ODD = {  # beyond the 64 KiB of the block, and of all shared memory
    "start_past_the_block": Desc(IMAGE_BYTES, 128, 256, NONE),
    "start_past_the_sm": Desc(0x3FFF0 - 2048, 128, 256, NONE),
    "stride_past_the_block": Desc(0, 128, 16384, NONE),
    "stride_past_the_sm": Desc(0, 128, 0x3FFF0, NONE),
    "wraps": Desc(0x3FFF0 - 2048, 128, 2048, NONE),
}


def odd_case(name: str) -> tuple[Form, Case]:
    return _B, _probe(name, _B, [ODD[name]], of_b=True)


def odd(name: str, engine: str) -> None:
    """Runs one case and prints what it read; the process may end with the driver's error."""
    form, case = odd_case(name)
    found = places(case, Runner(engine, kernel_text(form)).run(case))
    print(json.dumps(found[0, ::8, 0].tolist()))


def odd_ones(engine: str) -> dict[str, str]:
    """What each of ODD printed, the numbers of the elements in rows 0, 8, …, or its last words."""
    told: dict[str, str] = {}
    for name in ODD:
        command = [sys.executable, __file__, "-", "--engine", engine, "--one", name]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
            words = (ended.stdout if ended.returncode == 0 else ended.stderr).strip()
            told[name] = words.splitlines()[-1] if words else f"exit {ended.returncode}"
        except subprocess.TimeoutExpired:
            told[name] = "did not end in 120 s"
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--engine", default="gpu", choices=("gpu", "emulator"))
    parser.add_argument("--odd", action="store_true")
    parser.add_argument("--one", choices=tuple(ODD), help="that odd case alone, printed")
    parser.add_argument("--first", type=int, help="the cases from this number on, up to a failure")
    given = parser.parse_args()
    if given.one is not None:
        odd(given.one, given.engine)
        return 0
    out = Path(given.out)
    if given.first is not None:
        kept = record(given.engine, given.first)
    else:
        kept = record_all(given.engine, out)
    if given.odd:
        told = odd_ones(given.engine)
        kept["odd"] = np.frombuffer(json.dumps(told).encode(), "u1")
        print(json.dumps(told, indent=1))
    np.savez_compressed(out, **kept)  # type: ignore[arg-type]
    return 0


if __name__ == "__main__":
    sys.exit(main())
