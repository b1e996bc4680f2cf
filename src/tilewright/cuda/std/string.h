#pragma once
// For device code: NVRTC knows memcpy and memset.
