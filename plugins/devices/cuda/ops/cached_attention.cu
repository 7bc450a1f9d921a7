#include <cmath>

#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "kernels/cached_attention.cuh"
#include "language/launch.hpp"

namespace strata::cuda {
namespace {

CachedAttentionShape cached_shape(const OpInstance& op) {
  CachedAttentionShape shape;
  const std::int64_t texts = op.operands[0].shape[0];
  shape.positions = static_cast<int>(op.operands[0].shape[1]);
  shape.rows = texts * shape.positions;
  shape.capacity = op.results[1].shape[1];
  shape.head_dim = static_cast<int>(columns(op.operands[0]));
  shape.heads = static_cast<int>(elements(op.operands[0]) / (shape.rows * shape.head_dim));
  shape.kv_heads = static_cast<int>(elements(op.operands[1]) / (shape.rows * shape.head_dim));
  shape.window = op.attributes.integer("window");
  shape.scale = 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
  return shape;
}

std::optional<std::string> unsupported_cached_attention(const OpInstance& op) {
  constexpr std::int64_t kMostRows = 65535;
  if (columns(op.operands[0]) > kCachedWidth) {
    return "head_dim is " + std::to_string(columns(op.operands[0])) + "; accepted: at most " +
           std::to_string(kCachedWidth);
  }
  const std::int64_t rows = op.operands[0].shape[0] * op.operands[0].shape[1];
  if (rows <= kMostRows) return std::nullopt;
  return "computes " + std::to_string(rows) + " new positions at once; accepted: at most " + std::to_string(kMostRows);
}

PreparedKernel prepare_cached_attention(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    return {[shape = cached_shape(op)](const KernelArguments& arguments) {
      const auto* where = in<std::int32_t>(arguments, 3);
      const auto rows = static_cast<unsigned>(shape.rows);
      const unsigned blocks = blocks_for(std::int64_t{shape.kv_heads} * shape.head_dim, kCachedThreads);
      T* k_cache = out<T>(arguments, 1);
      T* v_cache = out<T>(arguments, 2);
      launch(keep_rows<T>, {.grid = {blocks, rows}, .block = {kCachedThreads}}, arguments.stream, shape, where,
             in<T>(arguments, 1), in<T>(arguments, 2), k_cache, v_cache);
      launch(cached_attention_rows<T>, {.grid = {rows, static_cast<unsigned>(shape.heads)}, .block = {kCachedThreads}},
             arguments.stream, shape, where, in<T>(arguments, 0), static_cast<const T*>(k_cache),
             static_cast<const T*>(v_cache), out<T>(arguments, 0));
    }};
  });
}

}  // namespace

void register_cached_attention(Registration& registration) {
  registration.add(
      kernel({"cached_attention", "ttti", "ttt", prepare_cached_attention, false, unsupported_cached_attention}));
}

}  // namespace strata::cuda
