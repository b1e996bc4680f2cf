"""Kernels of the product op: `.cu` files, each with the Python that plans it beside it.

wgmma.cu  16-bit operands that TMA reaches, on Tensor Cores of an H100 or H200
mma.cu    16-bit operands of any shape, strides and alignment on Tensor Cores (sm_80 on)
simt.cu   the same for fp32 operands, in fp32
repack.cu a matrix that TMA does not reach, copied to where it does
reduce.cu the partial sums of a product whose K was split
strided.py is what mma and simt share: their parameters and what they take; source.py how a
kernel's text, its macros and its epilogue become a Source.
"""
