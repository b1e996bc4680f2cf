// repack: a matrix with any strides becomes one whose lines begin at multiples of 16 bytes.
//
// A line is a row of the copy, or a column of one that is column-major. Squares of 128 bytes a line
// go through shared memory: they are read the way that lies together in the source (READ_ALONG: a
// line) and written in lines, 16 bytes a thread. What lies behind a line up to its pitch is zeros.
using i64 = long long;
using u32 = unsigned int;

template <int SIZE> struct Bits { using type = unsigned short; };
template <> struct Bits<4> { using type = u32; };
using E = Bits<ELEMENT_BYTES>::type;

struct RepackArgs {
  const E* from;
  E* to;
  i64 line, along, batch;                             // strides of the source, in elements
  i64 pitch, to_batch;                                // of the copy
  int lines, length;
};

#define AT(FIELD) __INTADDR__(&((RepackArgs*)0)->FIELD)
static_assert(sizeof(RepackArgs) == REPACK_ARGS_BYTES && AT(from) == REPACK_ARGS_FROM &&
                  AT(to) == REPACK_ARGS_TO && AT(line) == REPACK_ARGS_LINE &&
                  AT(along) == REPACK_ARGS_ALONG && AT(batch) == REPACK_ARGS_BATCH &&
                  AT(pitch) == REPACK_ARGS_PITCH && AT(to_batch) == REPACK_ARGS_TO_BATCH &&
                  AT(lines) == REPACK_ARGS_LINES && AT(length) == REPACK_ARGS_LENGTH,
              "repack.py and repack.cu disagree");
#undef AT

constexpr int WORDS = 32, SIDE = WORDS * 4 / sizeof(E);  // of a line in the square; its elements
constexpr int THREADS = 256, VECTORS = SIDE * WORDS / 4;
static_assert(SIDE == SQUARE && SIDE * SIDE % THREADS == 0 && VECTORS % THREADS == 0, "repack.py");

extern "C" __global__ __launch_bounds__(THREADS)
void gemm(const __grid_constant__ RepackArgs g) {
  __shared__ u32 square[SIDE][WORDS + 1];             // lanes down a column are in all banks, too
  const int across = (g.length - 1) / SIDE + 1, down = (g.lines - 1) / SIDE + 1;
  const int batch = blockIdx.x / (across * down), id = blockIdx.x % (across * down);
  const int line0 = id / across * SIDE, at0 = id % across * SIDE;
  const int thread = threadIdx.x;

  const E* from = g.from + batch * g.batch + line0 * g.line + at0 * g.along;
  E held[SIDE * SIDE / THREADS];
#pragma unroll
  for (int i = 0; i < SIDE * SIDE / THREADS; ++i) {
    const int first = (thread + i * THREADS) / SIDE, second = (thread + i * THREADS) % SIDE;
    const int line = READ_ALONG ? first : second, at = READ_ALONG ? second : first;
    const bool inside = line0 + line < g.lines && at0 + at < g.length;
    held[i] = inside ? from[line * g.line + at * g.along] : E(0);
  }
#pragma unroll
  for (int i = 0; i < SIDE * SIDE / THREADS; ++i) {
    const int first = (thread + i * THREADS) / SIDE, second = (thread + i * THREADS) % SIDE;
    reinterpret_cast<E*>(square[READ_ALONG ? first : second])[READ_ALONG ? second : first] = held[i];
  }
  __syncthreads();
  E* to = g.to + batch * g.to_batch + line0 * g.pitch + at0;
#pragma unroll
  for (int i = 0; i < VECTORS / THREADS; ++i) {
    const int line = (thread + i * THREADS) / (WORDS / 4), word = thread % (WORDS / 4) * 4;
    const int at = word * (SIDE / WORDS);
    const u32* words = &square[line][word];
    if (line0 + line < g.lines && at0 + at < g.pitch)
      *reinterpret_cast<uint4*>(&to[line * g.pitch + at]) =
          uint4{words[0], words[1], words[2], words[3]};
  }
}
