from __future__ import annotations

import dataclasses
import json
import math
import platform
import re
from pathlib import Path
from typing import Any

import pytest

from tilewright.bench import record
from tilewright.bench.record import Measurement
from tilewright.errors import InputError

# The contract of design.md, "A measurement line", in its order.
FIELDS = re.findall(
    r"\w+",
    """schema, taken, name, source_hash, m, n, k, layout, dtype, inputs, seed, us, us_samples,
    rival, rival_version, rival_us, rival_us_samples, ratio, correct, rel_error, method, gpu,
    driver, cuda, sm_mhz, power_w, temperature_c, host""",
)

LINE = Measurement(
    taken="2026-12-01T09:30:00Z",
    name="hgemm_bcf",
    source_hash="0123456789abcdef",
    m=256,
    n=384,
    k=192,
    layout="nn",
    dtype="bf16",
    inputs="normal",
    seed=0,
    us=2.0,
    us_samples=(1.9, 2.0, 2.5),
    rival="torch",
    rival_version="2.11.0",
    rival_us=4.0,
    rival_us_samples=(4.0, 4.0, 4.0),
    ratio=2.0,
    correct=True,
    rel_error=1.66e-3,
    method="graph replay, 3 interleaved rounds of 9 runs over 3 input sets",
    gpu="NVIDIA H200",
    driver="580.159.03",
    cuda="13.0",
    sm_mhz=1980,
    power_w=650.5,
    temperature_c=50,
    host="Linux x86_64, 16 cores, Python 3.12.3",
)


def changed(**values: Any) -> str:
    data = json.loads(record.to_line(LINE))
    data.update(values)
    return json.dumps(data)


def test_a_line_has_exactly_the_contracts_fields_in_order() -> None:
    line = record.to_line(LINE)
    assert list(json.loads(line)) == FIELDS
    assert "\n" not in line
    assert json.loads(line)["schema"] == "tilewright.measurement/1"
    assert record.parse_line(line) == LINE


def test_fields_that_do_not_apply_are_null_and_come_back_as_none() -> None:
    names = re.findall(
        r"\w+",
        """source_hash, rival, rival_version, rival_us, rival_us_samples, ratio, correct,
        rel_error, sm_mhz, power_w, temperature_c""",
    )
    nothing: dict[str, Any] = dict.fromkeys(names)
    bare = dataclasses.replace(LINE, **nothing)
    line = record.to_line(bare)
    assert [name for name, value in json.loads(line).items() if value is None] == names
    assert record.parse_line(line) == bare


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "schema"])
def test_a_missing_field_is_named(name: str) -> None:
    data = json.loads(record.to_line(LINE))
    del data[name]
    with pytest.raises(InputError, match=rf"lacks {name}\."):
        record.parse_line(json.dumps(data))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (changed(extra=1), "unknown fields: extra"),
        (changed(schema="tilewright.measurement/2"), 'schema="tilewright.measurement/2"'),
        (changed(m="256"), 'm must be a whole number, not "256"'),
        (changed(m=256.0), "m must be a whole number"),
        (changed(seed=True), "seed must be a whole number"),
        (changed(us=True), "us must be a number"),
        (changed(name=None), "name must be text, not null"),
        (changed(correct=1), "correct must be true or false or null"),
        (changed(us_samples=[]), "us_samples must be a list of finite numbers"),
        (changed(us_samples=[1, "2"]), "us_samples must be a list of finite numbers"),
        (changed(rival_us_samples=3), "rival_us_samples must be a list"),
        (changed(us=math.nan), "NaN"),
        (changed(us=math.inf), "Infinity"),
        ("[1]", "must be a JSON object, not list"),
        ("{", "one JSON object on a line"),
        ('{"schema": 1, "schema": 2}', "schema twice"),
        ("[" * 100_000, "one JSON object on a line"),
        ('{"schema": ' + "9" * 5000 + "}", "one JSON object on a line"),
        (changed(us=1).replace('"us": 1,', '"us": 1e999,'), "us must be a number"),
    ],
)
def test_a_bad_line_raises_and_says_why(line: str, says: str) -> None:
    with pytest.raises(InputError, match=says.replace("[", r"\[")):
        record.parse_line(line)


@pytest.mark.parametrize(
    "values", [{"us": math.nan}, {"us_samples": (1.0, math.inf)}, {"m": "256"}, {"seed": object()}]
)
def test_what_could_not_be_read_back_is_not_written(values: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        record.to_line(dataclasses.replace(LINE, **values))


def test_append_only_adds_and_load_reads_files_and_folders(tmp_path: Path) -> None:
    later = dataclasses.replace(LINE, name="hgemm_bcf_dbf")
    path = tmp_path / "h200" / "hgemm.jsonl"
    record.append(path, [LINE])
    first = path.read_bytes()
    record.append(path, [later])
    assert path.read_bytes().startswith(first)
    assert record.load(path) == [LINE, later]
    record.append(path.with_name("a.jsonl"), [later])
    (path.parent / "notes.txt").write_text("no measurement")
    assert record.load(path.parent) == [later, LINE, later]
    assert record.load(str(path)) == [LINE, later]


def test_append_closes_a_line_left_open(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(record.to_line(LINE), encoding="utf-8")
    record.append(path, [LINE])
    assert record.load(path) == [LINE, LINE]


def test_a_bad_line_on_disk_is_named_with_file_and_number(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(record.to_line(LINE) + "\n\n" + changed(k=None) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"x\.jsonl:3: k must be"):
        record.load(path)
    with pytest.raises(InputError, match="cannot be read"):
        record.load(tmp_path / "none.jsonl")


def test_tflops_count_two_operations_a_product() -> None:
    assert LINE.tflops == pytest.approx(2 * 256 * 384 * 192 / 2e-6 / 1e12)


def test_host_does_not_name_the_machine() -> None:
    assert platform.node() not in record.host() or platform.node() in ("", platform.system())
    assert "cores, Python 3." in record.host()
    assert record.now().endswith("Z")
    assert len(record.now()) == len(LINE.taken)


SAME = [
    ("a = b; // Found 1.2x\n", "a = b;\n"),
    ("a /* x\n y */ b", "a b"),
    ("f(a,b);", "f( a ,\n   b ) ;"),
    ("#define A 1 // one\nB", "#define A 1\nB"),
    ("#define A  1\nB", "#define A 1\n\n\nB"),
    ("# define A 1", "#define A 1\n"),
    ("#define A \\\n  1\nB", "#define A 1\nB"),
    ("// header\n#if X\na\n#endif\n", "#if X\r\na\r\n#endif"),
    ("'\"' // c", "'\"'"),
    ('"a\\"//b" c', '"a\\"//b"   c'),
]
DIFFERENT = [
    ("int a", "inta"),
    ("a + +b", "a ++b"),
    ("#define F (x)", "#define F(x)"),
    ("#define A 1\nB", "#define A 1 B"),
    ('"a  b"', '"a b"'),
    ('x = "// no";', 'x = "// yes";'),
    ('R"(// a)"', 'R"(// b)"'),
    ("WM = 64", "WM = 65"),
    ("a/**/b", "ab"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_comments_and_white_space_do_not_change_the_hash(one: str, other: str) -> None:
    assert record.source_hash(one) == record.source_hash(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_code_changes_the_hash(one: str, other: str) -> None:
    assert record.source_hash(one) != record.source_hash(other)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"us": 0}, "a time of 0.0 µs is none"),
        ({"us": -1}, "a time of -1.0 µs is none"),
        ({"us_samples": [1.0, 0.0]}, "a time of 0.0 µs is none"),
        ({"rival_us_samples": [4.0, -4.0]}, "a time of -4.0 µs is none"),
        ({"m": 0}, "m=0 must be 1 to"),
        ({"k": -32}, "k=-32 must be 1 to"),
        ({"taken": "yesterday"}, "taken='yesterday' must look like"),
        ({"name": "a | b"}, "name must be one line of text"),
        ({"name": "<!-- /table -->"}, "name must be one line of text"),
        ({"gpu": "two\nlines"}, "gpu must be one line of printable text"),
        ({"layout": "n"}, "layout='n' must be one of nn, nt, tn, tt"),
        ({"layout": "zz"}, "layout='zz' must be one of"),
        ({"name": "\ud800x"}, "name must be one line of printable text"),
        ({"host": "\x1b[31m"}, "host must be one line of printable text"),
        ({"m": 10**400}, "m=1000"),
        ({"sm_mhz": -5}, "sm_mhz=-5 must be 0 to"),
        ({"ratio": 0.0}, "ratio=0.0 must be"),
        ({"rel_error": -1.0}, "rel_error=-1.0 must be 0 to"),
        ({"us_samples": [5e-324]}, "a time of 5e-324 µs is none"),
        ({"taken": "9999-99-99T99:99:99Z"}, "must look like"),
        ({"method": ""}, "method must be one line of printable text"),
    ],
)
def test_what_no_run_can_have_given(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        record.parse_line(changed(**values))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_only_a_file_is_appended_to() -> None:
    with pytest.raises(InputError, match="/dev/full is not a file"):
        record.append("/dev/full", [LINE])


def test_text_that_is_no_text_leaves_no_file(tmp_path: Path) -> None:
    target = tmp_path / "new" / "lines.jsonl"
    with pytest.raises(InputError):
        record.append(target, [dataclasses.replace(LINE, inputs="\ud800")])
    assert not target.parent.exists()


def test_a_digit_separator_begins_no_literal() -> None:
    assert record.source_hash("int a=1'000; // '") == record.source_hash("int a=1'000;")
    assert record.source_hash("int a=1'000;") != record.source_hash("int a=1'001;")
