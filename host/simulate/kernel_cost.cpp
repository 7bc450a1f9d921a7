#include "simulate/kernel_cost.hpp"

#include <algorithm>
#include <limits>

#include "simulate/measured.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Ways of dividing the depth of a product among units. Each adds partial results that are summed through memory.
constexpr std::array<std::int64_t, 3> kDepthSplits{1, 2, 4};
/// A tile's depth advances by so many elements at a time.
constexpr std::int64_t kDepthStep = 32;
/// Bytes that one load instruction of a unit moves. Rows must be a multiple of it.
constexpr std::int64_t kLoadBytes = 16;
/// Share of the epilogue of a wave that the next wave does not hide.
constexpr double kExposedEpilogue = 1.0 / 3;
/// Bytes of a partial sum.
constexpr double kSumBytes = 4;
/// Bytes by which a mask of dropped elements adds to each of them.
constexpr double kMaskBytes = 1;

std::int64_t ceiling(std::int64_t value, std::int64_t divisor) { return (value + divisor - 1) / divisor; }
double real(std::int64_t value) { return static_cast<double>(value); }

double memory_seconds(const DeviceDescription& device, double bytes) {
  const double rate = device.memory_bandwidth * device.memory_share;
  if (rate <= 0) throw ConfigurationError("the device '" + device.name + "' has no memory bandwidth");
  return bytes / rate;
}

double product_rate(const DeviceDescription& device, DType dtype) {
  return peak_flops(device, dtype) * device.product_share;
}

/// Time of a product in tiles of one shape, with its depth divided in `split`.
double tiled_seconds(const DeviceDescription& device, const ProductTile& tile, const ProductShape& shape,
                     const KernelWork& work, std::int64_t split) {
  const std::int64_t tiles = shape.batch * ceiling(shape.rows, tile.rows) * ceiling(shape.columns, tile.columns);
  const double waves = real(ceiling(tiles * split, device.units));
  const std::int64_t depth = ceiling(ceiling(shape.depth, kDepthStep) * kDepthStep, split);
  const double area = static_cast<double>(tile.rows) * tile.columns;
  const double rate = product_rate(device, work.dtype) * tile.rate / device.units;
  const double epilogue = memory_seconds(device, device.units * area * work.result_size);
  double seconds = waves * 2 * area * real(depth) / rate + waves * device.tile_fill + epilogue +
                   (waves - 1) * epilogue * kExposedEpilogue;
  if (split > 1) {
    const double sums = 2 * real(split) * real(shape.batch * shape.rows * shape.columns) * kSumBytes;
    seconds += sums / (2 * device.memory_bandwidth);
  }
  return seconds;
}

double product_seconds(const DeviceDescription& device, const KernelWork& work, const ProductShape& shape) {
  if (device.tiles.empty()) return work.flops / product_rate(device, work.dtype);
  double best = std::numeric_limits<double>::infinity();
  for (const ProductTile& tile : device.tiles) {
    const std::int64_t tiles = shape.batch * ceiling(shape.rows, tile.rows) * ceiling(shape.columns, tile.columns);
    for (const std::int64_t split : kDepthSplits) {
      if (split > 1 && tiles * split > 2L * device.units) break;
      best = std::min(best, tiled_seconds(device, tile, shape, work, split));
    }
  }
  const std::int64_t per_load = kLoadBytes / static_cast<std::int64_t>(size_of(work.dtype));
  const bool is_aligned = shape.columns % per_load == 0 && shape.depth % per_load == 0;
  return is_aligned ? best : best * device.misaligned_factor;
}

/// The scores of all queries and keys, written to memory by one product and read by the other, with the softmax and the
/// mask of dropped ones between them. The backward pass reads the kept probabilities and has twice the products.
double unfused_attention_seconds(const DeviceDescription& device, const KernelWork& work, const AttentionShape& shape) {
  const double size = static_cast<double>(size_of(work.dtype));
  const double scores = real(shape.heads) * real(shape.queries) * real(shape.keys);
  const auto product = [&](std::int64_t rows, std::int64_t columns, std::int64_t depth) {
    const ProductShape each{shape.heads, rows, columns, depth};
    KernelWork one = work;
    one.flops = 2 * real(shape.heads) * real(rows) * real(columns) * real(depth);
    one.result_size = size;
    const double traffic = size * real(shape.heads) *
                           (real(rows) * real(depth) + real(columns) * real(depth) + real(rows) * real(columns));
    return std::max(product_seconds(device, one, each), memory_seconds(device, traffic)) + device.kernel_gap;
  };
  const auto& [heads, queries, keys, head_size, is_backward, drops] = shape;
  // Dropping reads and writes the scores and a mask.
  const double dropping = drops ? 2 * size + kMaskBytes : 0;
  const double context = 2 * size * real(heads) * real(queries) * real(head_size);
  if (!is_backward) {
    return product(queries, keys, head_size) + product(queries, head_size, keys) +
           memory_seconds(device, scores * (2 * size + dropping) + context);
  }
  return product(queries, keys, head_size) + 3 * product(queries, head_size, keys) +
         memory_seconds(device, scores * (3 * size + dropping) + context);
}

double attention_seconds(const DeviceDescription& device, const KernelWork& work) {
  const AttentionShape& shape = *work.attention;
  if (!device.fused_attention) return unfused_attention_seconds(device, work, shape);
  const double share = shape.is_backward ? device.attention_backward_share : device.attention_forward_share;
  return std::max(work.flops / (peak_flops(device, work.dtype) * share), memory_seconds(device, work.bytes));
}

/// Without measured points.
double described_seconds(const DeviceDescription& device, const KernelWork& work) {
  if (work.product) {
    return std::max(product_seconds(device, work, *work.product), memory_seconds(device, work.bytes));
  }
  if (work.attention) return attention_seconds(device, work);
  const double arithmetic = device.vector_flops > 0 ? work.flops / device.vector_flops : 0;
  return std::max(arithmetic, memory_seconds(device, work.bytes));
}

}  // namespace

double peak_flops(const DeviceDescription& device, DType dtype) {
  for (const DType type : {dtype, DType::f32}) {
    const auto found = device.peak_flops.find(type);
    if (found != device.peak_flops.end() && found->second > 0) return found->second;
  }
  throw ConfigurationError("the device '" + device.name + "' has no peak rate of products for " +
                           std::string(to_string(dtype)) + " or f32");
}

double kernel_seconds(const DeviceDescription& device, const KernelWork& work, int sharing) {
  if (const auto seconds = measured_kernel(device, work, sharing)) return *seconds;
  return sharing * described_seconds(device, work);
}

}  // namespace strata::host
