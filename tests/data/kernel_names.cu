// Kernels of every kind of name: what NVRTC makes of them is what test_demangle.py reads.
struct __half;
struct __nv_bfloat16;
typedef signed char int8_t;
typedef unsigned long uint64_t;
namespace ns { enum class Mode { a, b, c }; enum Old { x, y }; template <class T, int N> struct Tile {}; struct Args { int a; }; template<class...> struct List {}; template <template<class> class> struct TT{}; template<class> struct One{}; }
template <int B> __global__ void gemm(float*) {}
template __global__ void gemm<128>(float*); template __global__ void gemm<-3>(float*);
namespace ns {
template <class T, int N> __global__ void gemm(const T* a, T* b, int n) {}
template __global__ void gemm<float, 128>(const float*, float*, int);
template __global__ void gemm<__half, 64>(const __half*, __half*, int);
template __global__ void gemm<__nv_bfloat16, 64>(const __nv_bfloat16*, __nv_bfloat16*, int);
namespace inner { __global__ void plain(Args, const Args*, Args const&, volatile int*, const volatile float*, unsigned long long, long, char, signed char, unsigned char, short, unsigned short, bool, double, size_t, int8_t, uint64_t, long long) {}
template <bool b, Mode m, unsigned u, long l, char c, Old o, unsigned long long ull, short s> __global__ void lits(Tile<float, 3>, Tile<Tile<int, 4>, 5>*, List<>, List<int, float>) {}
template __global__ void lits<true, Mode::b, 5u, 7l, 'a', y, 9ull, 4>(Tile<float, 3>, Tile<Tile<int, 4>, 5>*, List<>, List<int, float>);
template <class T, class U> __global__ void two(T*, U*, T**, const U* const*, Tile<T, 2>, Tile<U, 2>) {}
template __global__ void two<Args, Tile<Args, 1>>(Args*, Tile<Args,1>*, Args**, const Tile<Args,1>* const*, Tile<Args,2>, Tile<Tile<Args,1>,2>); }
}
template <class... Ts> __global__ void pack(Ts... ts) {}
template __global__ void pack<int, float*, ns::Args>(int, float*, ns::Args);
template __global__ void pack<>();
template <int... Is> __global__ void ints(int) {}
template __global__ void ints<1, 2, 3>(int);
template <template <class> class X> __global__ void tt(X<int>, X<float>*) {}
template __global__ void tt<ns::One>(ns::One<int>, ns::One<float>*);
__global__ void fn(void (*f)(int, float), int (*g)(), float (*h)[4], const float* const* p, dim3 d, float4 v, decltype(nullptr) z) {}
extern "C" __global__ void c_name(int*) {}
__global__ void nothing() {}
static __global__ void hidden(int* x) { *x = 1; }
namespace { __global__ void secret(int* x) { *x = 1; } template <int N> __global__ void secret_t(int *x) { *x = N; } struct Loc{int a;}; __global__ void secret_s(Loc l) {} template __global__ void secret_t<3>(int*); template <class T> __global__ void anon_t(T* x) { *x = {}; } template __global__ void anon_t<Loc>(Loc*); }
template <class F> __global__ void apply(F f) {}
template __global__ void apply<void (*)(int)>(void (*)(int));
template __global__ void apply<int[4]>(int*);
template __global__ void apply<float (&)[4]>(float (&)[4]);
template <class T> struct Box { template <int N> struct In {}; };
template <class T, int N> __global__ void dep(typename Box<T>::template In<N> a, T b) {}
template __global__ void dep<int, 3>(Box<int>::In<3>, int);
template <class T> __global__ void refs(T& a, const T& c) {}
template __global__ void refs<float>(float&, const float&);
template __global__ void refs<float&>(float&, float&);
__global__ void arr(float (&a)[4], float (*b)[3][4], const int (&c)[2]) {}
template <int N> struct Ptr{}; template <class T> __device__ int fun(T); 
