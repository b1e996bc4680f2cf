"""Instruction semantics, one builder per PTX mnemonic."""
