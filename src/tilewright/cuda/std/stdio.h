#pragma once
// For device code: NVRTC knows printf.
