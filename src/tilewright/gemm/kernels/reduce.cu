// reduce: the partial sums of a product whose K was split, added in order and finished.
//
// Each thread adds four neighbours of a row, split after split, so that the bits are the same from
// run to run; then comes what the product's own kernel would have done: epilogue, one rounding.
#include "tile/epilogue_call.cuh"
#include "tile/strided_store.cuh"
#include "tile/vector.cuh"
using i64 = long long;

struct ReduceArgs {                                   // D[M, N / COLUMNS] of each matrix
  const float* from;                                  // [splits, batch, M, N]
  OUT* D;
  i64 D_row, D_col, D_batch;
  i64 split;                                          // from one split's sums to the next one's
  i64 runs;                                           // of neighbours, in all matrices
  int M, N, splits;
};

#define AT(FIELD) __INTADDR__(&((ReduceArgs*)0)->FIELD)
static_assert(sizeof(ReduceArgs) == REDUCE_ARGS_BYTES && AT(from) == REDUCE_ARGS_FROM &&
                  AT(D) == REDUCE_ARGS_D && AT(D_row) == REDUCE_ARGS_D_ROW &&
                  AT(D_col) == REDUCE_ARGS_D_COL && AT(D_batch) == REDUCE_ARGS_D_BATCH &&
                  AT(split) == REDUCE_ARGS_SPLIT && AT(runs) == REDUCE_ARGS_RUNS &&
                  AT(M) == REDUCE_ARGS_M && AT(N) == REDUCE_ARGS_N &&
                  AT(splits) == REDUCE_ARGS_SPLITS,
              "reduce.py and reduce.cu disagree");
#undef AT
static_assert(sizeof(EPILOGUE) == EPILOGUE_BYTES, "the epilogue's fields and its C++ type disagree");

constexpr int RUN = tile::CHUNK;

// Adds a run, of which `left` lie inside the row.
__device__ __forceinline__ void add(float (&sums)[RUN], const float* from, int left) {
  if constexpr (VEC_FROM == RUN) {
    float more[RUN];
    tile::copy_chunk(more, from);
#pragma unroll
    for (int i = 0; i < RUN; ++i) sums[i] += more[i];
  } else {
#pragma unroll
    for (int i = 0; i < RUN; ++i)
      if (i < left) sums[i] += from[i];
  }
}

extern "C" __global__ __launch_bounds__(THREADS)
void gemm(const __grid_constant__ ReduceArgs g, const __grid_constant__ EPILOGUE e) {
  const i64 run = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (run >= g.runs) return;
  const int out_n = g.N / COLUMNS, across = (out_n - 1) / RUN + 1;
  const i64 line = run / across;
  const int col = int(run - line * across) * RUN, batch = int(line / g.M);
  const int row = int(line - i64(batch) * g.M), left = out_n - col;

  float sums[RUN] = {}, ups[RUN] = {};
  const float* from = g.from + line * g.N + col;
#pragma unroll 4
  for (int split = 0; split < g.splits; ++split, from += g.split) {
    add(sums, from, left);
    if (COLUMNS == 2) add(ups, from + out_n, left);
  }

  EPILOGUE epilogue = e;
  tile::select(epilogue, batch, 0);
#pragma unroll
  for (int i = 0; i < RUN; ++i)
    if (i < left)
      sums[i] = tile::finished<COLUMNS, SWAPPED>(epilogue, sums[i], ups[i], row, col + i);
  OUT* d = g.D + batch * g.D_batch + row * g.D_row + col * g.D_col;
  tile::store_row<VEC_D>(d, g.D_col, sums, left);
}
