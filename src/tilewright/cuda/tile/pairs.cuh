#pragma once
// Two neighbouring elements, which one access moves.
namespace tile {

struct alignas(4) TwoHalves { unsigned short first, second; };  // the bits of two bf16 or fp16
struct alignas(8) TwoFloats { float first, second; };

}  // namespace tile
