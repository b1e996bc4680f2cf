#pragma once
// For device code: size_t and ptrdiff_t are known to NVRTC.
typedef decltype(nullptr) nullptr_t;
struct alignas(16) max_align_t {
  long long integer;
  double real;
};
#ifndef NULL
#define NULL 0
#endif
#ifndef offsetof
#define offsetof(type, member) __INTADDR__(&((type*)0)->member)
#endif
