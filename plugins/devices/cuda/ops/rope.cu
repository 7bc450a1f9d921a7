#include "device/cuda_kernel.hpp"
#include "kernels/element_run.cuh"
#include "kernels/strided_index.cuh"
#include "language/launch.hpp"
#include "shared/broadcast.hpp"
#include "strata/gpu_kernel.hpp"

namespace strata::cuda {

inline constexpr int kRopeThreads = 256;

/// The rotary angles of the rows of x[rows, features].
template <class V>
struct RotaryAngles {
  /// Maps a row to its position.
  StridedIndex place;
  const std::int32_t* positions = nullptr;
  /// cos[table_rows, pairs] and sin[table_rows, pairs]. A row with a position outside of the table is copied.
  const V* cos = nullptr;
  const V* sin = nullptr;
  std::int64_t table_rows = 0;
  std::int64_t pairs = 0;
  /// Features of a row. Those behind the pairs are copied.
  std::int64_t features = 0;
  /// 1, or -1 for the opposite angles.
  V direction = 1;
};

/// Stores a run, or with `accumulate` adds it.
template <int kWidth, class T, class V>
__device__ __forceinline__ void put_run(T* y, V (&x)[kWidth], bool accumulate) {
  if (accumulate) {
    V before[kWidth];
    load_run<kWidth>(y, before);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) x[i] += before[i];
  }
  store_run<kWidth>(y, x);
}

/// Each thread rotates kWidth neighbouring pairs, or copies as many features behind the pairs. y may alias x.
template <class T, int kWidth>
__global__ void __launch_bounds__(kRopeThreads)
    rotate_pairs(RotaryAngles<Accumulate<T>> angles, std::int64_t rows, const T* x, T* y, bool accumulate) {
  using V = Accumulate<T>;
  const std::int64_t index = (std::int64_t{blockIdx.x} * kRopeThreads + threadIdx.x) * kWidth;
  const std::int64_t indices = angles.features - angles.pairs;  // of pairs, and of the features behind them
  const std::int64_t row = index / indices;
  if (row >= rows) return;
  const std::int64_t pair = index - row * indices;
  const std::int64_t low = row * angles.features + pair;
  const std::int64_t high = low + angles.pairs;
  V a[kWidth];
  V b[kWidth];
  load_run<kWidth>(x + high, b);
  if (pair >= angles.pairs) return put_run(y + high, b, accumulate);
  load_run<kWidth>(x + low, a);
  const std::int64_t position = angles.positions[angles.place(row)];
  const bool turns = position >= 0 && position < angles.table_rows;
  V c[kWidth];
  V s[kWidth];
  if (turns) {
    load_run<kWidth>(angles.cos + position * angles.pairs + pair, c);
    load_run<kWidth>(angles.sin + position * angles.pairs + pair, s);
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const V cosine = turns ? c[i] : V{1};
    const V sine = turns ? angles.direction * s[i] : V{0};
    const V turned = a[i] * cosine - b[i] * sine;
    b[i] = a[i] * sine + b[i] * cosine;
    a[i] = turned;
  }
  put_run(y + low, a, accumulate);
  put_run(y + high, b, accumulate);
}

namespace {

std::optional<std::string> unsupported_rope(const OpInstance& op) {
  return devices::unsupported_broadcast(devices::rows_of(op.operands[0]), op.operands[3]);
}

constexpr auto kRope = []<class T>(const OpInstance& op) -> PreparedKernel {
  using V = Accumulate<T>;
  const RotaryAngles<V> shape{
      .place = part_index(devices::broadcast_shape(devices::rows_of(op.operands[0]), op.operands[3])),
      .table_rows = rows(op.operands[1]),
      .pairs = columns(op.operands[1]),
      .features = columns(op.operands[0]),
      .direction = op.attributes.flag("inverse") ? V{-1} : V{1}};
  return {[=, height = rows(op.operands[0]), accumulate = op.accumulate](const KernelArguments& arguments) {
    RotaryAngles<V> angles = shape;
    angles.cos = in<V>(arguments, 1);
    angles.sin = in<V>(arguments, 2);
    angles.positions = in<std::int32_t>(arguments, 3);
    const T* x = in<T>(arguments, 0);
    T* y = out<T>(arguments, 0);
    const auto launch_pairs = [&]<int kWidth>() {
      const std::int64_t indices = height * (angles.features - angles.pairs);
      const Geometry geometry{{blocks_for(indices, kRopeThreads * kWidth)}, {kRopeThreads}};
      launch(rotate_pairs<T, kWidth>, geometry, arguments.stream, angles, height, x, y, accumulate);
    };
    const bool packed = angles.pairs % kPackedElements<T> == 0 && angles.features % kPackedElements<T> == 0 &&
                        are_aligned(x, y, angles.cos, angles.sin);
    packed ? launch_pairs.template operator()<kPackedElements<T>>() : launch_pairs.template operator()<1>();
  }};
};

}  // namespace

void register_rope(Registration& registration) {
  add(registration, {"rope", "tffi", "t", true, unsupported_rope}, kRope);
}

}  // namespace strata::cuda
