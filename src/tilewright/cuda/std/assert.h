#pragma once
// For device code: NVRTC knows assert.
#ifdef NDEBUG
#undef assert
#define assert(condition) ((void)0)
#endif
#ifndef static_assert
#ifndef __cplusplus
#define static_assert _Static_assert
#endif
#endif
