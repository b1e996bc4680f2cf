"""Golden tables: the text of a terminal, Markdown and CSV, character by character."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from tilewright.bench.suite_run import Row, SuiteRun
from tilewright.bench.suite_table import render, to_csv, to_markdown

METHOD = "graph replay, 3 interleaved rounds of 9 runs over 3 input sets"
EVEN = Row(
    suite="square", name="torch", engine="gpu", arch="sm_90", dtype="bf16", layout="nn",
    m=4096, n=2048, k=1024, aligned=True, inputs="normal(0, 1)", cache="cold",
    correct=True, rel_error=1.656e-3, us=1024.25, us_p20=1020.0, us_p80=1030.0, tflops=1677.04,
    rival="torch", ratio=1.0, ratio_p20=1.0, ratio_p80=1.0,
    ratios={"torch": 1.0, "lt_best": 0.9765}, version="2.11.0",
    roof="matrix", roof_us=850.0, roof_share=0.8299, sm_mhz=1755, power_w=699.6,
    temperature_c=61, throttle=("power cap",), method=METHOD,
    repro="tilewright bench --shape 4096x2048x1024:nn --dtype bf16",
)  # fmt: skip
BEST = replace(
    EVEN, name="lt_best", us=1000.15, us_p20=999.0, us_p80=1001.5, tflops=1717.45,
    ratio=1.0241, ratio_p20=1.0187, ratio_p80=1.0312, ratios={"torch": 1.0241, "lt_best": 1.0},
    version="cuBLASLt 13.0, algo 66", roof_share=0.8499,
    throttle=("power cap", "software thermal"),
)  # fmt: skip
RUNG = replace(
    EVEN, name="hgemm_bcf", us=2048.5, us_p20=2040.0, us_p80=2050.0, tflops=838.52, ratio=0.5,
    ratio_p20=0.4966, ratio_p80=0.5024, ratios={"torch": 0.5, "lt_best": 0.4882}, version=None,
    roof_share=0.4149, sm_mhz=1980, power_w=512.4, throttle=(),
)  # fmt: skip
WRONG = Row(
    suite="square", name="mine", engine="gpu", arch="sm_90", dtype="bf16", layout="nn",
    m=4096, n=2048, k=1024, aligned=True, inputs="normal(0, 1)", cache="cold",
    status="wrong", reason="7 of 8388608 checked elements are wrong", correct=False,
    rel_error=float("nan"), version="mine: grid 16×32", roof="matrix", roof_us=850.0,
    repro="tilewright bench --shape 4096x2048x1024:nn --dtype bf16 --kernel mine.cu:mine",
)  # fmt: skip
ODD = replace(
    EVEN, suite="odd", m=7, n=9, k=11, layout="nt", aligned=False, us=2.51, us_p20=2.5,
    us_p80=2.6, tflops=0.000552, ratios={"torch": 1.0}, roof="launch", roof_us=1.0,
    roof_share=0.3984, throttle=None, sm_mhz=None, power_w=None,
)  # fmt: skip
ODD_BEST = replace(
    ODD, name="lt_best", us=1.25, us_p20=1.2, us_p80=1.3, tflops=0.001109, rel_error=None,
    ratio=2.0, ratio_p20=1.96, ratio_p80=2.04, ratios={"torch": 2.0}, roof_share=0.8,
)  # fmt: skip
SKIPPED = replace(
    WRONG, suite="odd", name="hgemm_bcf", m=7, n=9, k=11, layout="nt", aligned=False,
    status="skipped", reason="hgemm_bcf takes nn, not nt.", correct=None, rel_error=None,
    version=None, roof="launch", roof_us=1.0,
)  # fmt: skip
RUN = SuiteRun(
    "NVIDIA H200, driver 580.0",
    (EVEN, BEST, RUNG, WRONG, ODD, ODD_BEST, SKIPPED),
    ("quack is left out: not installed.", "1 × skipped: hgemm_bcf takes nn, not nt."),
)

COUNTED = Row(
    suite="shape", name="hgemm_naive", engine="emulator", arch="sm_90", dtype="fp16", layout="nn",
    m=128, n=256, k=64, aligned=True, inputs="zeros", cache="warm", correct=True, rel_error=1e-4,
    shared_wavefronts=12345, bank_conflicts=6789, global_sectors=1234567,
)  # fmt: skip
EMULATED = SuiteRun(
    "emulator of an NVIDIA H200",
    (
        COUNTED,
        replace(
            COUNTED, name="mine", status="wrong", reason="C[0, 0] = nan", correct=False,
            bank_conflicts=0,
        ),
        replace(
            COUNTED, m=4096, status="skipped", reason="too large", correct=None, rel_error=None,
            shared_wavefronts=None, bank_conflicts=None, global_sectors=None,
        ),
    ),
    ("Without a GPU there are no times.",),
)  # fmt: skip


def text(run: SuiteRun) -> list[str]:
    """The lines that a terminal shows, without the spaces at their ends."""
    out = StringIO()
    Console(file=out, width=120, color_system=None).print(render(run))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_the_timed_table() -> None:
    assert text(RUN) == [
        "bf16, normal(0, 1) inputs, cold cache, on NVIDIA H200, driver 580.0",
        "",
        " shape              kernel          µs  TFLOP/s  ÷ torch    p20–p80  of the roof",
        " ────────────────────────────────────────────────────────────────────────────────",
        " 4096×2048×1024 nn  torch      1,024.2  1,677.0    1.000  1.00–1.00   83% matrix",
        "                    lt_best    1,000.1  1,717.5    1.024  1.02–1.03   85% matrix",
        "                    hgemm_bcf  2,048.5    838.5    0.500  0.50–0.50   41% matrix",
        "                    mine         wrong",
        " 7×9×11 nt          torch          2.5      0.0    1.000  1.00–1.00   40% launch",
        "                    lt_best        1.2      0.0    2.000  1.96–2.04   80% launch",
        "",
        "SM clock 1755–1980 MHz at 512–700 W.",
        "2 of 5 kernels ran below the highest clock: power cap.",
        "1 of 5 kernels ran below the highest clock: software thermal.",
        "mine is wrong at 4096×2048×1024 nn: 7 of 8388608 checked elements are wrong",
        "",
        " suite        rows  kernel     shapes  geo. mean  worst  worst shape",
        " ──────────────────────────────────────────────────────────────────────────",
        " square    aligned  lt_best         1      1.024  1.024  4096x2048x1024:nn",
        " square    aligned  hgemm_bcf       1      0.500  0.500  4096x2048x1024:nn",
        " odd     unaligned  lt_best         1      2.000  2.000  7x9x11:nt",
        "",
        "Note: quack is left out: not installed.",
        "Note: 1 × skipped: hgemm_bcf takes nn, not nt.",
    ]


def test_markdown() -> None:
    assert to_markdown(RUN) == (
        "| shape | kernel | µs | TFLOP/s | speed ÷ torch | of the roof | error |\n"
        "|:--|:--|--:|--:|--:|--:|--:|\n"
        "| 4096×2048×1024 nn | torch | 1024.2 | 1677.0 | 1.000 | 83% matrix | 1.66e-03 |\n"
        "| 4096×2048×1024 nn | lt_best | 1000.1 | 1717.5 | 1.024 | 85% matrix | 1.66e-03 |\n"
        "| 4096×2048×1024 nn | hgemm_bcf | 2048.5 | 838.5 | 0.500 | 41% matrix | 1.66e-03 |\n"
        "| 7×9×11 nt | torch | 2.5 | 0.0 | 1.000 | 40% launch | 1.66e-03 |\n"
        "| 7×9×11 nt | lt_best | 1.2 | 0.0 | 2.000 | 80% launch | – |\n"
    )


HEADER = (
    "suite,name,engine,arch,dtype,layout,m,n,k,aligned,inputs,cache,status,reason,correct,"
    "rel_error,us,us_p20,us_p80,tflops,rival,ratio,ratio_p20,ratio_p80,version,roof,roof_us,"
    "roof_share,sm_mhz,power_w,temperature_c,throttle,method,shared_wavefronts,bank_conflicts,"
    "global_sectors,repro,energy_j,pj_per_flop"
)


def test_csv() -> None:
    at = 'gpu,sm_90,bf16,nn,4096,2048,1024,True,"normal(0, 1)",cold'
    odd = 'gpu,sm_90,bf16,nt,7,9,11,False,"normal(0, 1)",cold'
    way = '"graph replay, 3 interleaved rounds of 9 runs over 3 input sets"'
    again = "tilewright bench --shape 4096x2048x1024:nn --dtype bf16"

    def energy(us: float, watts: float) -> str:
        joules = watts * us / 1e6
        return f"{joules},{joules * 1e12 / (2 * 4096 * 2048 * 1024)}"

    assert to_csv(RUN).splitlines() == [
        f"{HEADER},ratio_torch,ratio_lt_best",
        f"square,torch,{at},ok,,True,0.001656,1024.25,1020.0,1030.0,1677.04,torch,1.0,1.0,1.0,"
        f"2.11.0,matrix,850.0,0.8299,1755,699.6,61,power cap,{way},,,,{again},"
        f"{energy(1024.25, 699.6)},1.0,0.9765",
        f"square,lt_best,{at},ok,,True,0.001656,1000.15,999.0,1001.5,1717.45,torch,1.0241,1.0187,"
        '1.0312,"cuBLASLt 13.0, algo 66",matrix,850.0,0.8499,1755,699.6,61,'
        f"power cap; software thermal,{way},,,,{again},"
        f"{energy(1000.15, 699.6)},1.0241,1.0",
        f"square,hgemm_bcf,{at},ok,,True,0.001656,2048.5,2040.0,2050.0,838.52,torch,0.5,0.4966,"
        f"0.5024,,matrix,850.0,0.4149,1980,512.4,61,none,{way},,,,{again},"
        f"{energy(2048.5, 512.4)},0.5,0.4882",
        f"square,mine,{at},wrong,7 of 8388608 checked elements are wrong,False,nan,,,,,,,,,"
        f"mine: grid 16×32,matrix,850.0,,,,,,,,,,{again} --kernel mine.cu:mine,,,,",
        f"odd,torch,{odd},ok,,True,0.001656,2.51,2.5,2.6,0.000552,torch,1.0,1.0,1.0,2.11.0,"
        f"launch,1.0,0.3984,,,61,,{way},,,,{again},,,1.0,",
        f"odd,lt_best,{odd},ok,,True,,1.25,1.2,1.3,0.001109,torch,2.0,1.96,2.04,2.11.0,"
        f"launch,1.0,0.8,,,61,,{way},,,,{again},,,2.0,",
        f'odd,hgemm_bcf,{odd},skipped,"hgemm_bcf takes nn, not nt.",,,,,,,,,,,,'
        f"launch,1.0,,,,,,,,,,{again} --kernel mine.cu:mine,,,,",
    ]


def test_the_counted_table() -> None:
    assert text(EMULATED) == [
        "fp16, zeros inputs, warm cache, on emulator of an NVIDIA H200",
        "",
        " shape          kernel       wavefronts  conflicts    sectors  result",
        " ─────────────────────────────────────────────────────────────────────",
        " 128×256×64 nn  hgemm_naive      12,345      6,789  1,234,567      ok",
        " 128×256×64 nn  mine             12,345          0  1,234,567   wrong",
        "",
        "mine is wrong at 128×256×64 nn: C[0, 0] = nan",
        "Note: Without a GPU there are no times.",
    ]
    assert to_csv(EMULATED).splitlines() == [
        HEADER,
        "shape,hgemm_naive,emulator,sm_90,fp16,nn,128,256,64,True,zeros,warm,ok,,True,0.0001"
        + "," * 18
        + "12345,6789,1234567,,,",
        "shape,mine,emulator,sm_90,fp16,nn,128,256,64,True,zeros,warm,wrong,"
        '"C[0, 0] = nan",False,0.0001' + "," * 18 + "12345,0,1234567,,,",
        "shape,hgemm_naive,emulator,sm_90,fp16,nn,4096,256,64,True,zeros,warm,skipped,too large,"
        + "," * 24,
    ]
    assert to_markdown(EMULATED) == (
        "| shape | kernel | wavefronts | conflicts | sectors | result |\n"
        "|:--|:--|--:|--:|--:|:--|\n"
        "| 128×256×64 nn | hgemm_naive | 12345 | 6789 | 1234567 | ok |\n"
        "| 128×256×64 nn | mine | 12345 | 0 | 1234567 | wrong |\n"
    )


def test_nothing_was_measured() -> None:
    nothing = SuiteRun("NVIDIA H200", (), ("The budget of 0 s is spent; 2 shapes are left out.",))
    assert text(nothing)[0] == "Nothing on NVIDIA H200"
    assert text(nothing)[-1] == "Note: The budget of 0 s is spent; 2 shapes are left out."
    assert to_csv(nothing) == ""


def test_all_wrong_on_a_gpu_is_no_table_of_counts() -> None:
    lines = text(replace(RUN, rows=(WRONG, SKIPPED), notes=()))
    assert "  ".join(lines[2].split()[:4]) == "shape  kernel  µs  TFLOP/s"
    assert lines[4].split() == ["4096×2048×1024", "nn", "mine", "wrong"]
    assert len(lines) == 7  # the headings, one row, what is around them, and why it is wrong


def test_one_table_for_each_row_s_own_roof_and_ratio() -> None:
    """Without roofs and rival the cells are empty, in Markdown dashes."""
    bare = replace(
        EVEN, roof=None, roof_us=None, roof_share=None, rival=None, ratio=None, ratio_p20=None,
        ratio_p80=None, ratios=None, throttle=(), sm_mhz=None,
    )  # fmt: skip
    run = replace(RUN, rows=(bare,), notes=())
    assert text(run)[2:] == [
        " shape              kernel       µs  TFLOP/s  ÷ rival  p20–p80  of the roof",
        " ───────────────────────────────────────────────────────────────────────────",
        " 4096×2048×1024 nn  torch   1,024.2  1,677.0",
        "",
    ]
    assert to_markdown(run).splitlines()[2] == (
        "| 4096×2048×1024 nn | torch | 1024.2 | 1677.0 | – | – | 1.66e-03 |"
    )
