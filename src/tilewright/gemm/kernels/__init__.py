"""The kernels of the product op: each a `.cu` file, with what the planner asks of it in Python."""
