"""Hand-built GEMM kernels that you can read, run without a GPU, measure honestly, and ship."""
