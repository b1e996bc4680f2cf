"""What runs a launch: a GPU or the PTX emulator, behind one seam (base.py)."""
