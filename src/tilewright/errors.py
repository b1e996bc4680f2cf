"""The exception tree. A message is one sentence with the value met and the way out.

    TilewrightError
    ├── InputError           an argument, a shape or a name that is not accepted
    ├── ToolchainError       NVRTC or another compiler part is missing or unusable
    │   └── CompileError     the compiler refused a source; the message holds its first error
    ├── EngineError          an engine is missing (no GPU, no driver) or a launch failed
    └── EmulatorError        the emulator cannot go on
        └── UnsupportedError an opcode or modifier that is not modelled, with its text and line

Every one of them ends the command line with exit code 2, without a traceback; a wrong result
or a finding is not an exception and ends with exit code 1.
LongRunWarning is the one warning; the command line shows it as a note.
"""

from __future__ import annotations


class TilewrightError(Exception):
    """What this package raises on purpose; its text is meant for the user as it is."""


class InputError(TilewrightError, ValueError):
    """An argument, a shape or a name that is not accepted."""


class ToolchainError(TilewrightError):
    """NVRTC or another compiler part is missing or unusable."""


class CompileError(ToolchainError):
    """The compiler refused a source; `log` holds all it said."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class EngineError(TilewrightError):
    """An engine is missing (no GPU, no driver) or a launch failed."""


class EmulatorError(TilewrightError):
    """The emulator cannot go on with this program."""


class UnsupportedError(EmulatorError):
    """An opcode, modifier or operand that the emulator does not model; never skipped or guessed."""


class LongRunWarning(RuntimeWarning):
    """A launch that will take more than an hour, by the speed of its first blocks."""
