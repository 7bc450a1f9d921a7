#include "strata/internal/quantization.hpp"

#include <algorithm>
#include <limits>

#include "ops/op_base.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::ops {
namespace {

/// Names of the dimensions that replace the quantised dimension in integers and scales.
const Dim kBytes = "byte";
const Dim kBlocks = "block";

Dims with_last(Dims dims, const Dim& last) {
  dims.back() = last;
  return dims;
}

/// Requires whole runs on every rank, because blocks must not depend on the layout.
IterationSpace whole_runs(IterationSpace space, const Dim& run) {
  space.whole = {run, kBytes, kBlocks};
  return space;
}

class QuantizeBlocks final : public NamedOp {
 public:
  QuantizeBlocks()
      : NamedOp("quantize_blocks",
                "x -> (integers, scales): the last dim in blocks (attributes bits, 8 or 4, and block, the numbers that "
                "share a scale); it becomes the dims byte and block.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 1);
    require_float(types[0], node);
    require(!types[0].dims.empty(), node, "a scalar has no dim to quantise along");
    static_cast<void>(BlockQuantization::from(node.attributes));
    return {{with_last(types[0].dims, kBytes), DType::i8},
            {with_last(types[0].dims, kBlocks), statistic_type(types[0].dtype)}};
  }

  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    return whole_runs(OpDefinition::iteration(graph, node), graph.type(node.operands.at(0)).dims.back());
  }
};

class DequantizeBlocks final : public NamedOp {
 public:
  DequantizeBlocks()
      : NamedOp(
            "dequantize_blocks",
            "integers, scales -> x (attributes bits and block; result: its dims; dtype, where it is not that of the "
            "scales): the inverse of quantize_blocks, added up over the leading dims that the result lacks.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 2);
    require(types[0].dtype == DType::i8, node, "integers are i8, found " + to_string(types[0]));
    require_float(types[1], node);
    require(!types[0].dims.empty() && types[0].dims.back() == kBytes, node,
            "expected integers along " + kBytes + ", found " + to_string(types[0]));
    require_dims(types[1], with_last(types[0].dims, kBlocks), node);
    static_cast<void>(BlockQuantization::from(node.attributes));
    const Dims result = split_dims(node.attributes.word("result"));
    const Dims runs = without_last(types[0].dims);
    const bool is_rest = !result.empty() && result.size() <= types[0].dims.size() &&
                         std::equal(result.rbegin() + 1, result.rend(), runs.rbegin());
    require(is_rest, node, "[" + join(result) + "] has other runs than " + to_string(types[0]));
    return {{result, result_type(node, types[1].dtype)}};
  }

  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    return whole_runs(OpDefinition::iteration(graph, node), node.results.at(0).dims.back());
  }
};

using reference::Launch;
using reference::Reader;
using reference::Work;
using reference::Writer;

/// The smallest normal number of the scales' type.
double smallest_scale(const OperandDescription& scales) {
  return scales.dtype == DType::f64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
}

double scale_of(const Reader& x, std::int64_t begin, std::int64_t length, int largest, double smallest) {
  double greatest = 0.0;
  for (std::int64_t i = begin; i < begin + length; ++i) {
    if (!std::isfinite(x[i])) return std::nan("");
    greatest = std::max(greatest, std::abs(x[i]));
  }
  return std::max(greatest / largest, smallest);
}

/// Reads the integers of one run by index.
class Integers {
 public:
  Integers(const Reader& bytes, std::int64_t begin, int bits) : bytes_(bytes), begin_(begin), bits_(bits) {}

  double operator[](std::int64_t index) const {
    if (bits_ == 8) return bytes_[begin_ + index];
    const int byte = static_cast<int>(bytes_[begin_ + index / 2]) & 0xFF;
    const int half = index % 2 == 0 ? byte & 0xF : byte >> 4;
    return half < 8 ? half : half - 16;
  }

 private:
  const Reader& bytes_;
  std::int64_t begin_;
  int bits_;
};

/// Writes the integers of one block, which starts at a whole byte.
void store_integers(const std::vector<int>& integers, int bits, const Writer& bytes, std::int64_t begin) {
  const auto count = static_cast<std::int64_t>(integers.size());
  const auto at = [&](std::int64_t i) { return i < count ? integers[static_cast<std::size_t>(i)] : 0; };
  if (bits == 8) {
    for (std::int64_t i = 0; i < count; ++i) bytes.set(begin + i, at(i));
    return;
  }
  for (std::int64_t i = 0; i < count; i += 2) {
    const int byte = (at(i) & 0xF) | ((at(i + 1) & 0xF) << 4);
    bytes.set(begin + i / 2, byte < 128 ? byte : byte - 256);
  }
}

Work prepare_quantize_blocks(const OpInstance& op) {
  const QuantizedRuns shape = QuantizedRuns::from(op);
  const double smallest = smallest_scale(op.results[1]);
  return [=](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Writer integers = launch.result(0);
    const Writer scales = launch.result(1);
    const BlockQuantization& by = shape.quantization;
    for (std::int64_t run = 0; run < shape.runs; ++run) {
      for (std::int64_t block = 0; block < by.scales(shape.length); ++block) {
        const std::int64_t within = block * by.block;
        const std::int64_t begin = run * shape.length + within;
        const std::int64_t length = std::min(by.block, shape.length - within);
        const std::int64_t at = run * by.scales(shape.length) + block;
        scales.set(at, scale_of(x, begin, length, by.largest(), smallest));
        // The rounded scale, as it was stored.
        const double scale = scales.get(at);
        std::vector<int> block_integers;
        for (std::int64_t i = begin; i < begin + length; ++i) {
          block_integers.push_back(std::isnan(scale) ? 0 : static_cast<int>(std::nearbyint(x[i] / scale)));
        }
        store_integers(block_integers, by.bits, integers, run * by.bytes(shape.length) + by.bytes(within));
      }
    }
  };
}

Work prepare_dequantize_blocks(const OpInstance& op) {
  const QuantizedRuns shape = QuantizedRuns::from(op);
  return [=](const Launch& launch) {
    const Reader bytes = launch.operand(0);
    const Reader scales = launch.operand(1);
    const Writer x = launch.result(0);
    const BlockQuantization& by = shape.quantization;
    for (std::int64_t run = 0; run < shape.runs; ++run) {
      for (std::int64_t i = 0; i < shape.length; ++i) {
        double sum = 0.0;
        for (std::int64_t source = 0; source < shape.sources; ++source) {
          const std::int64_t from = source * shape.runs + run;
          const Integers integers(bytes, from * by.bytes(shape.length), by.bits);
          sum += integers[i] * scales[from * by.scales(shape.length) + i / by.block];
        }
        x.set(run * shape.length + i, sum);
      }
    }
  };
}

}  // namespace

void register_quantization(Registration& registration) {
  registration.add(std::make_unique<QuantizeBlocks>());
  registration.add(std::make_unique<DequantizeBlocks>());
  registration.add(reference::kernel(
      {"quantize_blocks", "r", "br", prepare_quantize_blocks, false, nullptr, QuantizedRuns::mismatch}));
  registration.add(reference::kernel(
      {"dequantize_blocks", "br", "r", prepare_dequantize_blocks, true, nullptr, QuantizedRuns::mismatch}));
}

}  // namespace strata::ops
