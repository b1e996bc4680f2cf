#pragma once
#include "ptx/cp_async_fill.cuh"
// How a block brings tile after tile along K from a matrix with any strides to shared memory.
namespace tile {

// A tile has ROWS rows of COLS elements in shared memory. K runs along its rows if K_ALONG, else
// from row to row; M or N is the other one. VEC elements of a row go at once: above 1 they lie next
// to each other in the matrix, at multiples of their own size. What lies beyond the edges is filled
// with zeros and never read. PARTS = 2 puts together a tile of columns n0 ... of a gate and of what
// it gates: its second half comes from N / 2 columns further on.
// PLACE::at(row, col) is where an element lies in the tile, a vector staying whole.
//
// cp.async carries 4, 8 or 16 bytes. Single elements of 16 bits wait in registers: start() loads
// them, and finish() puts them into the tile, with a matrix product in between.
template <class T, class PLACE, bool K_ALONG, int ROWS, int COLS, int VEC, int THREADS, int PARTS>
class StridedCopy {
  static constexpr int ACROSS = COLS / VEC;           // threads along a row
  static constexpr int AT_ONCE = THREADS / ACROSS;    // rows
  static constexpr int COUNT = ROWS / AT_ONCE;
  static constexpr int PART = (K_ALONG ? ROWS : COLS) / PARTS;  // along M or N
  static constexpr bool ASYNC = VEC * sizeof(T) >= 4;
  static_assert(THREADS % ACROSS == 0 && ROWS % AT_ONCE == 0 && PART % (K_ALONG ? AT_ONCE : VEC) == 0,
                "each thread has as many vectors of each part");

  const T* from;
  long long row_step, k_step, jump;                   // in elements; jump: to the second part
  int row, col, rows_left, cols_left;                 // what lies before the edges, from here on
  T held[ASYNC ? 1 : COUNT];

 public:
  // `matrix` is element (0, 0); mn0 is where the tile begins along M or N, of `extent` in each part.
  __device__ __forceinline__ StridedCopy(const T* matrix, long long mn_stride, long long k_stride,
                                         int mn0, int extent, int K) {
    row = threadIdx.x / ACROSS, col = threadIdx.x % ACROSS * VEC;
    const int along = K_ALONG ? row : col, second = along / PART;  // K_ALONG: always the first part
    const int mn = mn0 + along % PART, k = K_ALONG ? col : row;
    from = matrix + (mn + (long long)second * extent) * mn_stride + k * k_stride;
    row_step = AT_ONCE * (K_ALONG ? mn_stride : k_stride);
    k_step = (K_ALONG ? COLS : ROWS) * k_stride;
    jump = (long long)(extent - PART) * mn_stride;
    rows_left = K_ALONG ? extent - mn : K - k;
    cols_left = K_ALONG ? K - k : extent - mn;
  }

  // Starts the copies of the tile that is due to shared address `to`, and moves on along K.
  __device__ __forceinline__ void start(ptx::u32 to) {
    const T* at = from;
    const int across = min(max(cols_left, 0), VEC);
#pragma unroll
    for (int i = 0; i < COUNT; ++i, at += row_step) {
      const int down = i * AT_ONCE;
      if (PARTS == 2 && K_ALONG && down == PART) at += jump;
      const int used = (K_ALONG ? down % PART : down) < rows_left ? across : 0;
      if constexpr (ASYNC)
        ptx::cp_async_fill<VEC * sizeof(T)>(to + PLACE::at(row + down, col) * sizeof(T), at,
                                            used * sizeof(T));
      else
        held[i] = used ? *at : T{};
    }
    from += k_step;
    (K_ALONG ? cols_left : rows_left) -= K_ALONG ? COLS : ROWS;
  }

  // Puts what start() loaded last into the tile at `to`; nothing, where cp.async has done it.
  __device__ __forceinline__ void finish(T* to) {
    if constexpr (!ASYNC)
#pragma unroll
      for (int i = 0; i < COUNT; ++i) to[PLACE::at(row + i * AT_ONCE, col)] = held[i];
  }
};

}  // namespace tile
