#pragma once

#include "language/language.hpp"

namespace strata::cuda {

struct Weights {
  double factor[3] = {};
};

/// The sum of up to three values, each times its factor.
struct WeightedSum {
  Weights weights;

  template <class Value>
  __device__ __forceinline__ Value operator()(Value x) const {
    return static_cast<Value>(weights.factor[0]) * x;
  }
  template <class Value>
  __device__ __forceinline__ Value operator()(Value x, Value y) const {
    return (*this)(x) + static_cast<Value>(weights.factor[1]) * y;
  }
  template <class Value>
  __device__ __forceinline__ Value operator()(Value x, Value y, Value z) const {
    return (*this)(x, y) + static_cast<Value>(weights.factor[2]) * z;
  }
};

}  // namespace strata::cuda
