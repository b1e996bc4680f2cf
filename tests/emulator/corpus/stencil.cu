// Neighbours: one dimension with a halo, two with the filter in constant memory.

#ifndef RADIUS
#define RADIUS 3
#endif

extern "C" __global__ void stencil_1d(float* out, const float* in, int n) {
  extern __shared__ float s[];
  int g = blockIdx.x * blockDim.x + threadIdx.x, l = threadIdx.x + RADIUS;
  s[l] = g < n ? in[g] : 0.f;
  if (threadIdx.x < RADIUS) {
    int left = g - RADIUS, right = g + (int)blockDim.x;
    s[l - RADIUS] = left >= 0 ? in[left] : 0.f;
    s[l + blockDim.x] = right < n ? in[right] : 0.f;
  }
  __syncthreads();
  if (g >= n) return;
  float r = 0;
  for (int o = -RADIUS; o <= RADIUS; o++) r += s[l + o];
  out[g] = r;
}

__constant__ float weights[3][5] = {{1, 0, -1, 2, .5f}, {3, .25f, 0, 1, 1}, {-2, 1, 4, 0, 1.5f}};

extern "C" __global__ void convolve_2d(float* out, const float* in, int h, int w) {
  constexpr int BX = 16, BY = 8, KX = 5, KY = 3;
  __shared__ float t[BY + KY - 1][BX + KX - 1];
  int x0 = blockIdx.x * BX - KX / 2, y0 = blockIdx.y * BY - KY / 2;
  for (int i = threadIdx.y * BX + threadIdx.x; i < (BY + KY - 1) * (BX + KX - 1); i += BX * BY) {
    int ty = i / (BX + KX - 1), tx = i % (BX + KX - 1), y = y0 + ty, x = x0 + tx;
    bool in_it = x >= 0 && x < w && y >= 0 && y < h;
    t[ty][tx] = in_it ? in[y * w + x] : 0.f;
  }
  __syncthreads();
  int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;
  if (x < w && y < h) {
    float acc = 0;
#pragma unroll
    for (int j = 0; j < KY; j++)
#pragma unroll
      for (int i = 0; i < KX; i++) acc += weights[j][i] * t[threadIdx.y + j][threadIdx.x + i];
    out[y * w + x] = acc;
  }
}
