"""Runs compiled PTX in vectorised NumPy and counts what the hardware would count."""
