#pragma once
// For device code: NVRTC knows malloc and free.
