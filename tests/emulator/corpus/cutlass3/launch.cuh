// The kernel, and a program of the host that prints what a launch of it passes.
#pragma once

extern "C" __global__ void __launch_bounds__(Kernel::MaxThreadsPerBlock, 1)
gemm(const __grid_constant__ Kernel::Params params) {
  extern __shared__ char bytes[];
  Kernel{}(params, bytes);
}

#ifdef HOST
#include <cstdio>

template <class T>
void print_list(const char* name, const T* numbers, int count) {
  std::printf(", \"%s\": [", name);
  for (int i = 0; i < count; i++)
    std::printf("%s%llu", i ? ", " : "", static_cast<unsigned long long>(numbers[i]));
  std::printf("]");
}

// In the place of the driver's: prints a map and leaves its number where it would lie.
extern "C" CUresult CUDAAPI cuTensorMapEncodeTiled(
    CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* tensor,
    const cuuint64_t* shape, const cuuint64_t* strides, const cuuint32_t* box,
    const cuuint32_t* steps, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  static int number = 0;
  std::snprintf(reinterpret_cast<char*>(map), sizeof(*map), "tensor map %d", number);
  std::printf("%s{\"tensor\": %d, \"type\": %d, \"swizzle\": %d", number ? ", " : "",
              static_cast<int>(reinterpret_cast<size_t>(tensor) >> 20), type, swizzle);
  print_list("shape", shape, rank);
  print_list("strides", strides, rank - 1);
  print_list("box", box, rank);
  print_list("element_strides", steps, rank);
  std::printf("}");
  number++;
  return CUDA_SUCCESS;
}

int main() {
  using In = typename Kernel::ElementA;
  using Out = typename Kernel::ElementD;
  auto rows = [](int64_t stride) { return make_stride(stride, _1{}, int64_t(0)); };
  In* a = reinterpret_cast<In*>(size_t(1) << 20);
  In* b = reinterpret_cast<In*>(size_t(2) << 20);
  Out* d = reinterpret_cast<Out*>(size_t(3) << 20);
  std::printf("{\"shape\": [%d, %d, %d], \"maps\": [", M, N, K);
  auto params = Kernel::to_underlying_arguments(
      {cutlass::gemm::GemmUniversalMode::kGemm,
       {M, N, K, 1},
       {a, rows(K), b, rows(K)},
       {{}, nullptr, rows(N), d, rows(N)},
       cutlass::KernelHardwareInfo{0, BLOCKS}},
      nullptr);
  dim3 grid = Kernel::get_grid_shape(params);
  std::printf("], \"grid\": [%d, %d], \"block\": %d, \"shared\": %d, \"params\": \"", grid.x,
              grid.y, int(Kernel::get_block_shape().x), Kernel::SharedStorageSize);
  for (size_t i = 0; i < sizeof(params); i++)
    std::printf("%02x", reinterpret_cast<unsigned char*>(&params)[i]);
  std::printf("\"}\n");
}
#endif
