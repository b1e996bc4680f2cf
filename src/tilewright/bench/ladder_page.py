"""The ladder as one page of Markdown: of each rung its header, code, counts and measurements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tilewright.bench.climb_picture import climb_picture
from tilewright.bench.ladder import ON_GPU
from tilewright.bench.ladder_steps import GPU, RIVAL, Step, of_one_shape, suffix
from tilewright.bench.record import Measurement
from tilewright.bench.rung_counts import RungCounts
from tilewright.gpus import gpu_reported
from tilewright.ladder.checklist import Answer, Question
from tilewright.ladder.rung import Rung
from tilewright.ladder.rung_text import diff_of, kernel_of
from tilewright.ladder.rungs import KernelRung
from tilewright.model.energy import energy_j, pj_per_flop

SOURCE = "../src/tilewright/ladder"
LANGUAGES = {".cu": "cuda", ".py": "python"}
POWER = "SM clock | power | a GEMM | pJ/FLOP"  # heads of what `_power` has the cells of
BAR = 10  # characters of a whole
_Figure = Callable[[Mapping[str, Any]], float | None]


def _field(name: str) -> _Figure:
    return lambda fields: fields[name]


def _share(name: str) -> _Figure:
    return lambda fields: _quotient(fields[name], fields[f"{name}_ideal"])


COUNTS: tuple[tuple[str, _Figure], ...] = (
    ("registers a thread", _field("registers")),
    ("bytes spilled", _field("spill_bytes")),
    ("bytes of shared memory a block", _field("shared_bytes")),
    ("blocks a multiprocessor", _field("blocks_per_sm")),
    ("FLOP per byte copied to shared memory",
     lambda fields: fields["intensity"] if fields["shared_bytes"] else None),
    ("wavefronts of shared memory", _field("shared_wavefronts")),
    ("the same ÷ ideal", _share("shared_wavefronts")),
    ("bank conflicts", _field("bank_conflicts")),
    ("sectors loaded", _field("global_sectors_load")),
    ("sectors stored", _field("global_sectors_store")),
    ("sectors ÷ ideal", _share("global_sectors")),
    ("instructions issued", _field("instructions")),
)  # fmt: skip


def page(steps: Sequence[Step], questions: Iterable[Question]) -> str:
    """The page behind its introduction. The pictures of `pictures` lie beside it."""
    families = _by_family(steps)
    parts = [contents(steps)]
    names = [step.rung.name for step in steps]
    for family, mine in families.items():
        parts.append(_family(family, mine))
        parts += [_rung(step, names) for step in mine]
    parts.append(_questions(questions, [step.answer for step in steps if step.answer]))
    return "\n\n".join(parts)


def pictures(steps: Sequence[Step]) -> dict[str, str]:
    """The SVG files of the families that were timed, by their names."""
    return {
        picture_name(family): _picture(family, mine)
        for family, mine in _by_family(steps).items()
        if of_one_shape(mine)
    }


def picture_name(family: str) -> str:
    return f"ladder-{family}.svg"


def contents(steps: Iterable[Step]) -> str:
    """The table at the top: a line a rung."""
    rows = [
        f"| family | rung | idea | {RIVAL} = 1 at {ON_GPU[0]}³ on an {GPU.title} | lines changed |",
        "|:--|:--|:--|:--|--:|",
    ]
    for step in steps:
        name, family, idea = step.rung.name, step.rung.family, escaped(step.header.sentence)
        cells = (f"[{family}](#{family})", f"[{name}](#{name})", idea, _standing(step), _much(step))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def escaped(prose: str) -> str:
    """Prose that Markdown shows as it is, in a table too."""
    return re.sub(
        r"[\\*<|~`]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", lambda match: f"\\{match[0]}", prose
    )


def _by_family(steps: Iterable[Step]) -> dict[str, list[Step]]:
    families: dict[str, list[Step]] = {}
    for step in steps:
        families.setdefault(step.rung.family, []).append(step)
    return families


def _standing(step: Step) -> str:
    line = step.headline
    if line is None:
        return "not timed"
    usual = (line.m, line.n, line.k) == ON_GPU and line.layout == "nn"
    where = line.dtype if usual else f"{line.dtype} {_shape(line)}"
    if line.gpu is None:
        return f"{line.us / 1e3:,.1f} ms on the host, {where}"
    if line.ratio is None or line.rival != RIVAL:
        return f"{_us(line.us)} µs, {where}"
    full = min(round(line.ratio * BAR), BAR)
    return f"{'█' * full}{'░' * (BAR - full)} {line.ratio:.2f} {where}"


def _much(step: Step) -> str:
    if step.before is None:
        return "first"
    return f"{_number(step.changed)}, rewrite" if step.is_rewrite else _number(step.changed)


def _family(family: str, steps: Sequence[Step]) -> str:
    parts = [f"## {family}"]
    if timed := of_one_shape(steps):
        parts.append(f"![{_title(family, timed)}]({picture_name(family)})")
        parts.append(_climbed(timed))
    counted = {
        "{m}×{n}×{k} {dtype} for {arch}".format_map(found.fields) + f", built with {found.compiler}"
        for step in steps
        if (found := step.counts) and not found.reason
    }
    if counted:
        parts.append(f"Counts of this family: {'; '.join(sorted(counted))}.")
    return "\n\n".join(parts)


def _climbed(lines: Mapping[str, Measurement]) -> str:
    """The lines of the picture as a table."""
    rows = [f"| rung | µs | TFLOP/s | {POWER} |", f"|:--|--:|--:|{'--:|' * len(POWER.split('|'))}"]
    for name, line in lines.items():
        cells = (f"[{name}](#{name})", _us(line.us), f"{line.tflops:.1f}", *_power(line))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _title(family: str, lines: Mapping[str, Measurement]) -> str:
    line = next(iter(lines.values()))
    return f"{family}: speed over {RIVAL}'s, {_shape(line)} {line.dtype} on an {line.gpu}"


def _picture(family: str, steps: Sequence[Step]) -> str:
    lines = of_one_shape(steps)
    shares = {}
    for step in steps:
        line = lines.get(step.rung.name)
        shares[step.rung.name] = line.ratio if line and line.rival == RIVAL else None
    rivals = {RIVAL: 1.0}
    last = max(lines.values(), key=lambda line: line.taken)
    library = steps[0].library.get(last.taken)
    if library is not None and library.rival == RIVAL and library.ratio is not None:
        rivals["cuBLASLt"] = library.ratio
    return climb_picture(_title(family, lines), shares, rivals)


def _rung(step: Step, names: Sequence[str]) -> str:
    rung = step.rung
    sentence = escaped(step.header.sentence)
    told = [
        f"**{word}:** {_linked(escaped(prose), rung.name, names)}"
        for word, prose in step.header.parts.items()
    ]
    return "\n\n".join(
        [
            f"### {rung.name}",
            f"*{sentence[0].upper()}{sentence[1:]}* ([{rung.file}]({SOURCE}/{rung.file}))",
            *told,
            *([_settled(step.answer)] if step.answer else []),
            _code(step),
            _counts(step),
            _measured(step),
        ]
    )


def _linked(prose: str, name: str, names: Sequence[str]) -> str:
    """Other rungs' names as links to their places."""
    others = "|".join(re.escape(other) for other in names if other != name)
    return re.sub(rf"\b({others})\b", r"[\1](#\1)", prose) if others else prose


def _settled(answer: Answer) -> str:
    asked = f"*{escaped(answer.question.text)}* (roadmap, {answer.question.place})"
    return f"> **Settles** {asked}: {escaped(answer.how)}"


def _code(step: Step) -> str:
    rung, before = step.rung, step.before
    if before is None or step.is_rewrite:
        if before is None:
            said = "The first of its family."
        elif step.changed is None:
            said = f"Written in another language than `{before.name}`."
        else:
            said = f"A rewrite of `{before.name}`: {step.changed} lines changed."
        block = _fenced(LANGUAGES.get(suffix(rung), ""), kernel_of(rung.text))
        return f"<details><summary>{_html(said)} The kernel</summary>\n\n{block}\n\n</details>"
    block = _fenced("diff", diff_of(before.text, rung.text))
    return f"Against `{before.name}`, {step.changed} lines changed:\n\n{block}"


def _html(text: str) -> str:
    return re.sub(r"`(.*?)`", r"<code>\1</code>", text)


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def _counts(step: Step) -> str:
    now, then = step.counts, step.counts_before
    if now is None:
        return "Not counted: the emulator runs CUDA's files."
    if now.reason:
        return f"Not counted in the emulator: {escaped(now.reason)}"
    old = then if then and not then.reason else None
    against = f"against `{step.before.name}`" if step.before and old else ""
    heads = ["count", "of the launch", *([against] if against else [])]
    rows = [f"| {' | '.join(heads)} |", f"|:--{'|--:' * (len(heads) - 1)}|"]
    for label, figure in COUNTS:
        value = figure(now.fields)
        if value is None:
            continue
        cells = [label, _number(value)]
        if old:
            cells.append(change(figure(old.fields), value))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([*rows, *_cut(step.rung, now)])


def _cut(rung: Rung, counts: RungCounts) -> list[str]:
    """A remark where the shape is no whole number of tiles: the counts are then of more."""
    if not isinstance(rung, KernelRung):
        return []
    tile, (m, n) = rung.tile, (counts.fields["m"], counts.fields["n"])
    if m % tile.bm == 0 and n % tile.bn == 0:
        return []
    return ["", f"Tiles of {tile.bm}×{tile.bn} are cut at the edge of C here, and cost whole ones."]


def change(before: float | None, after: float) -> str:
    """What became of a figure, in a cell: "÷ 4", "+3.1 %", "=", "gone"; "new" where none was."""
    if before == after:
        return "="
    if not before:
        return "new"
    if not after:
        return "gone"
    ratio = after / before
    if abs(ratio - 1) < 0.1:
        return f"{(ratio - 1) * 100:+.1f} %".replace("-", "−")
    return f"× {ratio:.3g}" if ratio > 1 else f"÷ {1 / ratio:.3g}"


def _measured(step: Step) -> str:
    if not step.lines:
        return "Not timed yet."
    rows = [
        f"| type and shape | µs | TFLOP/s | ÷ {RIVAL} | ÷ cuBLASLt | {POWER} | record |",
        f"|:--|--:|--:|--:|--:|{'--:|' * len(POWER.split('|'))}:--|",
        *(_measured_row(step, line) for line in step.lines),
    ]
    return "\n".join(rows)


def _measured_row(step: Step, line: Measurement) -> str:
    where = f"{line.dtype}, {_shape(line)}"
    if line.gpu is None or gpu_reported(line.gpu) != GPU:
        where += f", {line.gpu or line.host}"
    ratio = line.ratio if line.rival == RIVAL else None
    named = " (in *Found*)" if line.taken in step.header.records else ""
    cells = [
        where,
        _us(line.us),
        f"{line.tflops:.1f}",
        *("–" if x is None else f"{x:.2f}" for x in (ratio, step.against_library(line))),
        *_power(line),
        f"`{line.taken}`{named}",
    ]
    return f"| {' | '.join(cells)} |"


def _power(line: Measurement) -> list[str]:
    """The cells under POWER."""
    joules, picojoules = energy_j(line), pj_per_flop(line)
    return [
        "–" if line.sm_mhz is None else f"{line.sm_mhz} MHz",
        "–" if line.power_w is None else f"{line.power_w:.0f} W",
        "–" if joules is None else f"{joules:,.3g} J",
        "–" if picojoules is None else f"{picojoules:.3g}",
    ]


def _questions(questions: Iterable[Question], answers: Sequence[Answer]) -> str:
    rows = [
        "## The roadmap's questions",
        "",
        "From its review list (section 10) and its table of sticking points (section 9). Rungs "
        "settle them above, commands in a terminal; `tilewright ladder` and `bench` compare times "
        "on a GPU.",
        "",
        "| question | roadmap | rungs | commands |",
        "|:--|:--|:--|:--|",
    ]
    for question in questions:
        rungs = ", ".join(
            f"[{a.rung}](#{a.rung})" for a in answers if a.question.key == question.key
        )
        commands = ", ".join(f"`{command}`" for command in question.commands)
        if question.open:
            commands = f"*open:* {escaped(question.open)}"
        rows.append(
            f"| {escaped(question.text)} | {question.place} | {rungs or '–'} | {commands or '–'} |"
        )
    return "\n".join(rows)


def _shape(line: Measurement) -> str:
    cube = line.m == line.n == line.k
    extents = f"{line.m}³" if cube else f"{line.m}×{line.n}×{line.k}"
    return extents if line.layout == "nn" else f"{extents} {line.layout}"


def _us(us: float) -> str:
    return f"{us:,.1f}"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def _quotient(value: float | None, ideal: float | None) -> float | None:
    return value / ideal if value is not None and ideal else None
