#include "strata/internal/quantization.hpp"

#include <string>

#include "strata/error.hpp"

namespace strata {
namespace {

std::int64_t last(const OperandDescription& operand) { return operand.shape.empty() ? 1 : operand.shape.back(); }

/// Product of all dims but the last.
std::int64_t runs_of(const OperandDescription& operand) {
  return operand.shape.empty() ? 1 : element_count(Shape(operand.shape.begin(), operand.shape.end() - 1));
}

}  // namespace

BlockQuantization BlockQuantization::from(const Attributes& attributes) {
  const BlockQuantization result{static_cast<int>(attributes.integer("bits")), attributes.integer("block")};
  if (result.bits != 8 && result.bits != 4) {
    throw VerificationError("quantisation to " + std::to_string(result.bits) + " bits; accepted: 8, 4");
  }
  if (result.block < 1 || result.block * result.bits % 8 != 0) {
    throw VerificationError("quantisation in blocks of " + std::to_string(result.block) +
                            "; accepted: 1 or more, an even number where two integers share a byte");
  }
  return result;
}

void BlockQuantization::add_to(Attributes& attributes) const {
  attributes.set("bits", std::int64_t{bits});
  attributes.set("block", block);
}

QuantizedRuns QuantizedRuns::from(const OpInstance& instance) {
  const bool quantizes = instance.op == "quantize_blocks";
  const OperandDescription& numbers = quantizes ? instance.operands.at(0) : instance.results.at(0);
  const OperandDescription& integers = quantizes ? instance.results.at(0) : instance.operands.at(0);
  const OperandDescription& scales = quantizes ? instance.results.at(1) : instance.operands.at(1);
  QuantizedRuns result{BlockQuantization::from(instance.attributes), last(numbers), runs_of(numbers), 1};
  const std::int64_t quantised_runs = runs_of(integers);
  if (result.runs > 0) result.sources = quantised_runs / result.runs;
  const bool fits = result.sources >= 1 && result.runs * result.sources == quantised_runs &&
                    runs_of(scales) == quantised_runs && (result.sources == 1 || !quantizes) &&
                    last(integers) == result.quantization.bytes(result.length) &&
                    last(scales) == result.quantization.scales(result.length);
  if (fits) return result;
  throw VerificationError("op " + instance.op + " '" + instance.name + "': " + std::to_string(result.runs) +
                          " runs of " + std::to_string(result.length) + " numbers do not fit " +
                          std::to_string(quantised_runs) + " of " + std::to_string(last(integers)) + " bytes and " +
                          std::to_string(runs_of(scales)) + " of " + std::to_string(last(scales)) + " scales");
}

std::optional<std::string> QuantizedRuns::mismatch(const OpInstance& instance) {
  try {
    static_cast<void>(from(instance));
    return std::nullopt;
  } catch (const VerificationError& error) {
    return error.what();
  }
}

}  // namespace strata
