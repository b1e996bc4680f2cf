#pragma once
// How kernels that store element by element call an epilogue.
namespace tile {

// Moves the epilogue's pointers to one matrix of the batch; one without operands has none to move.
template <class CHAIN>
__device__ __forceinline__ auto select(CHAIN& epilogue, int batch, int)
    -> decltype(epilogue.select(batch)) {
  return epilogue.select(batch);
}
template <class CHAIN>
__device__ __forceinline__ void select(CHAIN&, int, long) {}

// What becomes of a sum at (row, col) of the kernel's D, and of `up`, the sum that it is the gate
// of, where COUNT = 2 columns of the product make one of D. If D is the transposed result (TURNED), the
// epilogue still sees the result's own row and column.
template <int COUNT, bool TURNED, class CHAIN>
__device__ __forceinline__ float finished(const CHAIN& epilogue, float sum, float up, int row,
                                          int col) {
  if constexpr (COUNT == 2) return epilogue(sum, up, row, col);
  else if constexpr (TURNED) return epilogue(sum, col, row);
  else return epilogue(sum, row, col);
}

}  // namespace tile
