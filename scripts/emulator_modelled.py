"""Writes the table of docs/emulator.md that says which PTX instructions the emulator executes.

python scripts/emulator_modelled.py          # writes it
python scripts/emulator_modelled.py --check  # fails where the page is stale
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "emulator.md"
BEGIN = "<!-- begin: scripts/emulator_modelled.py -->"
END = "<!-- end: scripts/emulator_modelled.py -->"
SHORT = {  # what many forms share, and the word that stands for it
    "<order>": "[.volatile/.weak/.(relaxed/acquire/release/mmio.relaxed).(cta/cluster/gpu/sys)]",
    "<cache>": "[.ca/cg/cs/lu/cv/nc/wb/wt][.L1::<…>][.L2::<…>][.level::<…>][.unified]",
    "<type>": "((b/u/s)(8/16/32/64)/f16/bf16/f32/f64/b128)",
}


def main(arguments: list[str]) -> int:
    text = PAGE.read_text(encoding="utf-8")
    fresh = replaced(text, table())
    if "--check" in arguments:
        if fresh != text:
            print(f"{PAGE} is stale; run {Path(__file__).name}", file=sys.stderr)
        return int(fresh != text)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


def replaced(text: str, part: str) -> str:
    """The page with this between its two marks."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE} lacks {BEGIN} or {END}.")
    return f"{head}{BEGIN}\n\n{part}\n{END}{tail}"


def table() -> str:
    """A row for each instruction and section of the ISA, in alphabetical order."""
    from tilewright.emulator import ops
    from tilewright.emulator.ops.registry import OPS

    ops.load()
    rows: dict[tuple[str, str], list[str]] = {}
    for mnemonic, forms in OPS.items():
        for form in forms:
            shown = mnemonic + readable(form.pattern.pattern)
            for word, long in SHORT.items():
                shown = shown.replace(long, f"[{word}]" if long[0] == "[" else word)
            kept = rows.setdefault((mnemonic, _section(form.isa)), [])
            if shown not in kept:
                kept.append(shown)
    lines = ["| instruction | forms | section of the PTX ISA |", "|---|---|---|"]
    for (mnemonic, section), kept in sorted(rows.items()):
        lines.append(f"| {mnemonic} | {'<br>'.join(f'`{form}`' for form in kept)} | {section} |")
    lines += ["", *(f"- `{word}`: `{long}`" for word, long in SHORT.items())]
    return "\n".join(lines) + "\n"


def _section(isa: str) -> str:
    section, _, _ = isa.partition(": ")
    return section.removesuffix(" Instructions")


# --- patterns ---------------------------------------------------------------------------


def readable(pattern: str) -> str:
    r"""A pattern as the page shows it: (?:\.(?P<mode>rn|rz))?\.f32 is [.rn/rz].f32."""
    reader = _Reader(pattern)
    shown = reader.choices()
    if reader.at != len(pattern):
        raise ValueError(f"{pattern!r} is not understood from {pattern[reader.at :]!r} on")
    return shown.text


@dataclass(frozen=True)
class _Shown:
    text: str
    is_choice: bool = False  # of several words, so that it needs brackets beside others


class _Reader:
    """Reads the few constructs that patterns of modifiers are made of."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = pattern, 0

    def choices(self) -> _Shown:
        words = [self._sequence()]
        while self._took("|"):
            words.append(self._sequence())
        if len(words) == 1:
            return words[0]
        return _Shown("/".join(word.text for word in words), is_choice=True)

    def _sequence(self) -> _Shown:
        parts: list[_Shown] = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            parts.append(self._repeated())
        if len(parts) == 1:
            return parts[0]
        lone = [part for part in parts if part.text not in (".", "")]
        bare = len(lone) == 1 and parts[0].text in (".", "")  # .rn/rz needs no brackets
        texts = [f"({p.text})" if p.is_choice and not bare else p.text for p in parts]
        return _Shown("".join(texts), is_choice=False)

    def _repeated(self) -> _Shown:
        one = self._one()
        if self._took("?") or self._took("*"):
            return _Shown(f"[{one.text}]") if one.text else one
        if self._took("+"):
            self._took("?")
        return one

    def _one(self) -> _Shown:
        if self._took("(?P="):
            return _Shown(f"<same {self._until(')')}>")
        if self._took("(?P<"):
            name, start = self._until(">"), self.at
            inner = self.choices()
            open_ended = self.pattern[start : self.at] in ("[a-z]+?", r"\d+")
            self._expect(")")
            return _Shown(f"<{name}>") if open_ended else inner
        if self._took("(?:"):
            inner = self.choices()
            self._expect(")")
            return inner
        if self._took("["):
            members = self._until("]")
            plain = members.isalnum()
            return _Shown("/".join(members) if plain else "<…>", is_choice=plain)
        if self._took("\\"):
            letter = self._next()
            return _Shown("<…>" if letter in "wd" else letter)
        return _Shown(self._next())

    def _next(self) -> str:
        self.at += 1
        return self.pattern[self.at - 1]

    def _took(self, text: str) -> bool:
        found = self.pattern.startswith(text, self.at)
        self.at += len(text) * found
        return found

    def _until(self, mark: str) -> str:
        end = self.pattern.index(mark, self.at)
        text, self.at = self.pattern[self.at : end], end + 1
        return text

    def _expect(self, text: str) -> None:
        if not self._took(text):
            raise ValueError(f"{self.pattern!r} lacks {text} at {self.at}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
