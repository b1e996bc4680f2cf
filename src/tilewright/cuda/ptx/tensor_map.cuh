#pragma once
// PTX ISA, "Tensor-Map": the 128 opaque bytes that describe a tensor to TMA; the driver calls the
// type CUtensorMap. A kernel takes it inside a `const __grid_constant__` parameter and hands on
// its address; launch.py has the same field in its records, and the engines fill it.
struct alignas(64) TensorMap { unsigned char bytes[128]; };
