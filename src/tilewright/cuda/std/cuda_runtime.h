#pragma once
// For device code: NVRTC knows the vector types, dim3 and the built-in variables.
#include <device_launch_parameters.h>
