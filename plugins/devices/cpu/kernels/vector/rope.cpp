#include "kernels/vector/broadcast.hpp"
#include "kernels/vector/parallel.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// Rotates one row by the angles of cos[pairs] and sin[pairs]. y may be x.
template <class T>
void rotate_row(std::int64_t pairs, const float* cos, const float* sin, float direction, const T* x, T* y,
                bool accumulate) {
  each_vector(0, pairs, [=](std::int64_t i, auto lanes) {
    const Float a = load(x + i, lanes);
    const Float b = load(x + pairs + i, lanes);
    const Float c = load(cos + i, lanes);
    const Float s = load(sin + i, lanes) * direction;
    const Float low = multiply_add(a, c, -(b * s));
    const Float high = multiply_add(a, s, b * c);
    store(y + i, low, accumulate, lanes);
    store(y + pairs + i, high, accumulate, lanes);
  });
}

/// Copies a row, which is a rotation by the angle 0.
template <class T>
void copy_row(std::int64_t columns, const T* x, T* y, bool accumulate) {
  if (!accumulate) return map_range(0, columns, x, y, [](Float value) { return value; });
  map_range(0, columns, x, y, y, [](Float value, Float before) { return before + value; });
}

template <class T>
void rotate(std::int64_t rows, const RotaryAngles& angles, const T* x, T* y, bool accumulate, int threads) {
  const MergedShape shape = merge(angles.rows);
  const std::int64_t columns = angles.features;
  const std::int64_t turned = 2 * angles.pairs;
  parallel_rows(threads, rows, columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t outer = row / shape.columns();
      const std::int64_t at = shape.operand_offset(outer) + (shape.columns_present() ? row % shape.columns() : 0);
      const std::int64_t position = angles.positions[at];
      const std::int64_t element = row * columns;
      if (position < 0 || position >= angles.table_rows) {
        copy_row(columns, x + element, y + element, accumulate);
        continue;
      }
      rotate_row(angles.pairs, angles.cos + position * angles.pairs, angles.sin + position * angles.pairs,
                 angles.direction, x + element, y + element, accumulate);
      copy_row(columns - turned, x + element + turned, y + element + turned, accumulate);
    }
  });
}

template <class T>
constexpr RopeKernels<T> kKernels = {rotate<T>};

}  // namespace

const ByElement<RopeKernels> rope_kernels = {kKernels<float>, kKernels<BFloat16>, kKernels<Float16>};

}  // namespace strata::cpu::STRATA_CPU_TARGET
