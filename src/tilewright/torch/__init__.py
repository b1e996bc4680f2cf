"""PyTorch: the product as an op with gradients, torch.compile and autocast, and as a module.

    from tilewright.torch import Linear, linear, matmul, replace_linears

functions.py  matmul and linear: the product at once, or the op where PyTorch has to see it
ops.py        torch.ops.tilewright: schemas, shapes for tracing, autocast
gradients.py  what flows back
modules.py    Linear, and replace_linears for the modules of a model

Imports are absolute throughout the package, so that `import torch` means PyTorch here as well.
"""

from __future__ import annotations

try:
    import torch  # noqa: F401
except ImportError:
    raise ImportError(
        "tilewright.torch needs PyTorch, which is not installed: pip install 'tilewright[torch]'."
    ) from None

from tilewright.torch.functions import linear, matmul
from tilewright.torch.modules import Linear, replace_linears

__all__ = ["Linear", "linear", "matmul", "replace_linears"]
