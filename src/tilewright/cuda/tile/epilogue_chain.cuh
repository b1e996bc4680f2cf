#pragma once
// Epilogues one after the other: each a functor float operator()(float x, int row, int col) const
// with select(batch), which moves its pointers to one matrix of the batch. A gate is a functor of
// two sums, operator()(float gate, float up, int row, int col); `columns`, a field of its, is how
// many the result has: the column of `up` is so much further right.
namespace tile {

// Two values of which the empty ones take no room, so that a chain's fields lie one behind the
// other as those of one record (gemm/chain.py) do.
template <class FIRST, class REST, bool = __is_empty(FIRST), bool = __is_empty(REST)>
struct Both {
  FIRST held_first;
  REST held_rest;
  __device__ __forceinline__ FIRST& first() { return held_first; }
  __device__ __forceinline__ const FIRST& first() const { return held_first; }
  __device__ __forceinline__ REST& rest() { return held_rest; }
  __device__ __forceinline__ const REST& rest() const { return held_rest; }
};

template <class FIRST, class REST>
struct Both<FIRST, REST, false, true> {
  FIRST held_first;
  __device__ __forceinline__ FIRST& first() { return held_first; }
  __device__ __forceinline__ const FIRST& first() const { return held_first; }
  __device__ __forceinline__ REST rest() const { return REST{}; }
};

template <class FIRST, class REST>
struct Both<FIRST, REST, true, false> {
  REST held_rest;
  __device__ __forceinline__ FIRST first() const { return FIRST{}; }
  __device__ __forceinline__ REST& rest() { return held_rest; }
  __device__ __forceinline__ const REST& rest() const { return held_rest; }
};

template <class FIRST, class REST>
struct Both<FIRST, REST, true, true> {
  __device__ __forceinline__ FIRST first() const { return FIRST{}; }
  __device__ __forceinline__ REST rest() const { return REST{}; }
};

template <class PART>
__device__ constexpr auto is_gate(const PART* part, int)
    -> decltype((*part)(0.f, 0.f, 0, 0), true) {
  return true;
}
template <class PART>
__device__ constexpr bool is_gate(const PART*, long) {
  return false;
}

template <class... PARTS>
struct Chain;

template <>
struct Chain<> {
  __device__ __forceinline__ void select(int) {}
  __device__ __forceinline__ float operator()(float x, int, int) const { return x; }
};

template <class FIRST, class... REST>
struct Chain<FIRST, REST...> : Both<FIRST, Chain<REST...>> {
  static constexpr bool GATE = is_gate(static_cast<const FIRST*>(nullptr), 0);

  __device__ __forceinline__ void select(int batch) {
    this->first().select(batch);
    this->rest().select(batch);
  }

  __device__ __forceinline__ float operator()(float x, int row, int col) const {
    return this->rest()(this->first()(x, row, col), row, col);
  }

  // What comes before the gate is done to both sums, each at its own column of the product.
  __device__ __forceinline__ float operator()(float gate, float up, int row, int col) const {
    if constexpr (GATE) {
      return this->rest()(this->first()(gate, up, row, col), row, col);
    } else {
      return this->rest()(this->first()(gate, row, col),
                          this->first()(up, row, col + gate_columns()), row, col);
    }
  }

  __device__ __forceinline__ int gate_columns() const {
    if constexpr (GATE) return this->first().columns;
    else return this->rest().gate_columns();
  }
};

}  // namespace tile
