#include "strata/internal/quantization.hpp"

#include <algorithm>
#include <limits>

#include "ops/op_base.hpp"
#include "strata/internal/weight_blocks.hpp"
#include "weight_blocks.hpp"

namespace strata::ops {
namespace {

/// Names of the dimensions that replace the quantised dimension in integers and scales.
const Dim kBytes = "byte";
const Dim kBlocks = "block";

Dims with_last(Dims dims, const Dim& last) {
  dims.back() = last;
  return dims;
}

// OpDescription::iterate: every rank has whole runs, because blocks must not depend on the layout.
void keep_quantized_whole(IterationSpace& space, const Node& /*node*/) {
  space.whole = {space.operands.at(0).back(), kBytes, kBlocks};
}
void keep_dequantized_whole(IterationSpace& space, const Node& /*node*/) {
  space.whole = {space.results.at(0).back(), kBytes, kBlocks};
}

Types infer_quantize_blocks(const Types& types, const Node& node) {
  require_float(types[0], node);
  require(!types[0].dims.empty(), node, "a scalar has no dim to quantise along");
  static_cast<void>(BlockQuantization::from(node.attributes));
  return {{with_last(types[0].dims, kBytes), DType::i8},
          {with_last(types[0].dims, kBlocks), statistic_type(types[0].dtype)}};
}

Types infer_dequantize_blocks(const Types& types, const Node& node) {
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

Dims with_dim(Dims dims, std::size_t position, const Dim& dim) {
  dims[position] = dim;
  return dims;
}

/// The position of the dim along which a weight is divided into blocks.
std::size_t position_of_blocks(const Dims& result, const Node& node) {
  const int along = find_dim(result, node.attributes.word("along"));
  require(along >= 0, node, "the result has no dimension '" + node.attributes.word("along") + "'");
  return static_cast<std::size_t>(along);
}

Types infer_dequantize_weight(const Graph& graph, const Types& types, const Node& node) {
  require(types[0].dtype == DType::i8, node, "codes are i8, found " + to_string(types[0]));
  require_float(types[1], node);
  const WeightBlocks blocks = WeightBlocks::from(node.attributes);
  const Dims result = split_dims(node.attributes.word("result"));
  const std::size_t along = position_of_blocks(result, node);
  for (const TensorType& type : types) {
    require(type.dims.size() == result.size() && with_dim(type.dims, along, result[along]) == result, node,
            "expected the dims [" + join(result) + "] apart from " + result[along] + ", found " + to_string(type));
  }
  const auto size = [&](const Dim& dim) { return graph.sizes.at(dim); };
  const std::int64_t length = size(result[along]);
  require(size(types[0].dims[along]) == blocks.bytes(length), node,
          "codes have another size than " + std::to_string(blocks.bytes(length)) + " along " + types[0].dims[along]);
  require(size(types[1].dims[along]) == blocks.scales(length), node,
          "scales have another size than " + std::to_string(blocks.scales(length)) + " along " + types[1].dims[along]);
  return {{result, result_type(node, types[1].dtype)}};
}

void keep_blocks_whole(IterationSpace& space, const Node& node) {
  const std::size_t along = position_of_blocks(node.results.at(0).dims, node);
  space.whole = {space.results.at(0).at(along), space.operands.at(0).at(along), space.operands.at(1).at(along)};
}

Work prepare_dequantize_weight(const OpInstance& op) {
  const BlockedWeight shape = BlockedWeight::from(op);
  return [=](const Launch& launch) {
    const Reader codes = launch.operand(0);
    const Reader scales = launch.operand(1);
    const Writer weight = launch.result(0);
    const WeightBlocks& blocks = shape.blocks;
    for (std::int64_t at = 0; at < shape.elements(); ++at) {
      const std::int64_t inner = at % shape.inner;
      const std::int64_t index = at / shape.inner % shape.length;
      const std::int64_t outer = at / shape.inner / shape.length;
      const CodePlace place = code_place(blocks, shape.length, index);
      const double code = codes[(outer * blocks.bytes(shape.length) + place.byte) * shape.inner + inner];
      const double scale = scales[(outer * blocks.scales(shape.length) + index / blocks.size) * shape.inner + inner];
      weight.set(at, scale * coded_number(blocks.code, static_cast<std::int8_t>(code), place.is_upper));
    }
  };
}

}  // namespace

void register_quantization(Registration& registration) {
  add_op(registration,
         {.name = "quantize_blocks",
          .documentation = "x -> (integers, scales): the last dim in blocks (attributes bits, 8 or 4, and "
                           "block, the numbers that share a scale); it becomes the dims byte and block.",
          .infer = infer_quantize_blocks,
          .iterate = keep_quantized_whole});
  add_op(registration,
         {.name = "dequantize_blocks",
          .documentation =
              "integers, scales -> x (attributes bits and block; result: its dims; dtype, where it is not that of the "
              "scales): the inverse of quantize_blocks, added up over the leading dims that the result lacks.",
          .operands = 2,
          .infer = infer_dequantize_blocks,
          .iterate = keep_dequantized_whole});
  registration.add(reference::kernel(
      {"quantize_blocks", "r", "br", prepare_quantize_blocks, false, nullptr, QuantizedRuns::mismatch}));
  registration.add(reference::kernel(
      {"dequantize_blocks", "br", "r", prepare_dequantize_blocks, true, nullptr, QuantizedRuns::mismatch}));
  add_op(registration,
         {.name = kDequantizeWeight,
          .documentation =
              "codes, scales -> weight (attributes code, int8 or nf4, and block; result: its dims; along: the one that "
              "is divided into blocks; dtype, where it is not that of the scales): the numbers of a weight that is "
              "stored in 8 or 4 bits. Codes and scales have other dims in the place of `along`.",
          .operands = 2,
          .infer_sized = infer_dequantize_weight,
          .iterate = keep_blocks_whole});
  registration.add(reference::kernel(
      {kDequantizeWeight, "bf", "r", prepare_dequantize_weight, true, nullptr, BlockedWeight::mismatch}));
}

}  // namespace strata::ops
