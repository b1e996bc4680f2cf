// cub_scan: a scan of a whole array in one pass, by decoupled look-back over CUB's tile states.
#include <cub/agent/single_pass_scan_operators.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

constexpr int THREADS = 64, ITEMS = 3;

template <class T>
struct Plus {
  __device__ T operator()(T a, T b) const { return a + b; }
};

template <class T>
__device__ void initialise(void* states, int tiles) {
  cub::ScanTileState<T> state;
  state.Init(tiles, states, 1 << 20);
  state.InitializeStatus(tiles);
}

template <class T>
__device__ void scan(T* out, const T* x, void* states, int tiles, int n) {
  using State = cub::ScanTileState<T>;
  using Prefix = cub::TilePrefixCallbackOp<T, Plus<T>, State>;
  using Load = cub::BlockLoad<T, THREADS, ITEMS, cub::BLOCK_LOAD_TRANSPOSE>;
  using Store = cub::BlockStore<T, THREADS, ITEMS, cub::BLOCK_STORE_TRANSPOSE>;
  using Scan = cub::BlockScan<T, THREADS>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Store::TempStorage store;
    struct {
      typename Prefix::TempStorage prefix;
      typename Scan::TempStorage scan;
    } both;
  } temp;
  State state;
  state.Init(tiles, states, 1 << 20);
  int tile = blockIdx.x, first = tile * THREADS * ITEMS;
  T items[ITEMS];
  Load(temp.load).Load(x + first, items, n - first, T(0));
  __syncthreads();
  Plus<T> plus;
  if (tile == 0) {
    T total;
    Scan(temp.both.scan).InclusiveScan(items, items, plus, total);
    if (threadIdx.x == 0) state.SetInclusive(0, total);
  } else {
    Prefix prefix(state, temp.both.prefix, plus, tile);
    Scan(temp.both.scan).InclusiveScan(items, items, plus, prefix);
  }
  __syncthreads();
  Store(temp.store).Store(out + first, items, n - first);
}

// int: value and status are one word of 8 bytes. double: one of 16, or two arrays and fences.
extern "C" __global__ void initialise_int(void* states, int tiles) { initialise<int>(states, tiles); }
extern "C" __global__ void scan_int(int* out, const int* x, void* states, int tiles, int n) {
  scan(out, x, states, tiles, n);
}
extern "C" __global__ void initialise_double(void* states, int tiles) {
  initialise<double>(states, tiles);
}
extern "C" __global__ void scan_double(double* out, const double* x, void* states, int tiles, int n) {
  scan(out, x, states, tiles, n);
}
