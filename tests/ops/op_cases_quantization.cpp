#include "ops/op_case.hpp"
#include "strata/internal/quantization.hpp"

namespace strata::testing {
namespace {

/// A quotient in f32 may round to the other side of a tie, most often for short operands. The integer then differs by
/// one. test_quantization.cpp tests scales and numbers with tighter bounds.
constexpr double kOneOffNowAndThen = 1e-2;

struct Runs {
  std::int64_t sources = 1;
  std::int64_t runs = 1;
  std::int64_t length = 1;
};

DimSizes sizes_of(const BlockQuantization& by, const Runs& runs) {
  return {{"source", runs.sources},
          {"run", runs.runs},
          {"number", runs.length},
          {"byte", by.bytes(runs.length)},
          {"block", by.scales(runs.length)}};
}

std::string name_of(const std::string& op, const BlockQuantization& by, const Runs& runs) {
  return op + "_to_" + std::to_string(by.bits) + "_bits_blocks_of_" + std::to_string(by.block) + "_runs_of_" +
         std::to_string(runs.length);
}

OpCase quantize(const BlockQuantization& by, const Runs& runs) {
  OpCase op_case{.name = name_of("quantize", by, runs),
                 .op = "quantize_blocks",
                 .sizes = sizes_of(by, runs),
                 .operands = {{{"run", "number"}}},
                 .tolerance = kOneOffNowAndThen};
  by.add_to(op_case.attributes);
  return op_case;
}

OpCase dequantize(const BlockQuantization& by, const Runs& runs) {
  OpCase op_case{.name = name_of("dequantize", by, runs),
                 .op = "dequantize_blocks",
                 .sizes = sizes_of(by, runs),
                 .operands = {{{"source", "run", "byte"}, Fill::bytes, DType::i8},
                              {.dims = {"source", "run", "block"}, .fill = Fill::positive, .full = true}},
                 .attributes = {{"result", "run number"}}};
  by.add_to(op_case.attributes);
  return op_case;
}

}  // namespace

std::vector<OpCase> quantization_cases() {
  const BlockQuantization bytes{8, 256};
  const BlockQuantization halves{4, 64};
  OpCase added = dequantize(halves, {3, 2, 500});
  added.name += "_accumulate";
  added.accumulate = true;
  OpCase short_result = dequantize(bytes, {2, 3, 700});
  short_result.name += "_to_bf16";
  short_result.attributes.set("dtype", "bf16");
  return {
      quantize(bytes, {1, 3, 1000}),
      quantize({8, 1}, {1, 2, 17}),
      quantize(halves, {1, 3, 1001}),
      // Enough numbers for several threads.
      quantize(halves, {1, 7, 20003}),
      dequantize(bytes, {1, 3, 1000}),
      dequantize({8, 7}, {3, 2, 50}),
      dequantize(halves, {4, 3, 1001}),
      dequantize({4, 600}, {2, 2, 1999}),
      // Runs of whole vectors.
      dequantize(bytes, {3, 2, 1024}),
      dequantize(halves, {2, 3, 1040}),
      dequantize(bytes, {3, 5, 20003}),
      added,
      short_result,
  };
}

}  // namespace strata::testing
