#include "compute_kernel.hpp"

#include <algorithm>
#include <vector>

namespace strata::cpu {
namespace {

/// The letter of operand or result `index`.
char letter_at(const std::string& letters, std::size_t index) {
  const std::size_t count = letters.ends_with('*') ? letters.size() - 1 : letters.size();
  return letters[std::min(index, count - 1)];
}

/// The type that all operands with the letter t have; f32 where there is none.
DType common_type(const KernelEntry& entry, const OpInstance& op) {
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (letter_at(entry.operands, i) == 't') return op.operands[i].dtype;
  }
  return DType::f32;
}

bool fits(char letter, DType dtype, DType common) {
  switch (letter) {
    case 't':
      return dtype == common && is_real(dtype);
    case 'r':
      return is_real(dtype);
    case 'f':
      return dtype == DType::f32;
    case 'i':
      return dtype == DType::i32;
    case 'b':
      return dtype == DType::i8;
    case 's':
      return dtype == DType::f64 || is_real(dtype);
    default:
      return dtype == DType::f64;
  }
}

std::optional<std::string> count_mismatch(const std::string& letters, std::size_t found, const std::string& what) {
  const bool repeats = letters.ends_with('*');
  const std::size_t count = repeats ? letters.size() - 1 : letters.size();
  if (repeats ? found >= count : found == count) return std::nullopt;
  return "takes " + std::to_string(count) + (repeats ? " or more " : " ") + what + "s, found " + std::to_string(found);
}

std::string cannot_be(const std::string& what, std::size_t index, DType dtype) {
  return what + " " + std::to_string(index) + " cannot be " + std::string(to_string(dtype));
}

/// The type in which the kernel itself leaves a result.
DType natural_type(char letter, DType wanted, DType common) {
  if (letter == 't') return common;
  return letter == 'f' ? DType::f32 : wanted;
}

}  // namespace

std::optional<std::string> type_mismatch(const KernelEntry& entry, const OpInstance& op) {
  if (auto reason = count_mismatch(entry.operands, op.operands.size(), "operand")) return reason;
  if (auto reason = count_mismatch(entry.results, op.results.size(), "result")) return reason;
  const DType common = common_type(entry, op);
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const DType found = op.operands[i].dtype;
    if (!fits(letter_at(entry.operands, i), found, common)) return cannot_be("operand", i, found);
  }
  for (std::size_t i = 0; i < op.results.size(); ++i) {
    const DType found = op.results[i].dtype;
    const char letter = letter_at(entry.results, i);
    const bool is_converted = (letter == 't' || letter == 'f') && is_real(found);
    if (!is_converted && !fits(letter, found, common)) return cannot_be("result", i, found);
    if (op.accumulate && !entry.accumulates && !is_real(found)) {
      return "cannot add to result " + std::to_string(i) + " in " + std::string(to_string(found));
    }
  }
  return std::nullopt;
}

ComputeKernel prepare_fitting(const KernelEntry& entry, const OpInstance& op, const Environment& environment) {
  const DType common = common_type(entry, op);
  OpInstance natural = op;
  natural.accumulate = false;
  bool is_natural = !op.accumulate || entry.accumulates;
  for (std::size_t i = 0; i < op.results.size(); ++i) {
    natural.results[i].dtype = natural_type(letter_at(entry.results, i), op.results[i].dtype, common);
    is_natural = is_natural && natural.results[i].dtype == op.results[i].dtype;
  }
  if (is_natural) return entry.prepare(op, environment);

  const ComputeKernel inner = entry.prepare(natural, environment);
  std::vector<std::int64_t> offsets;
  std::int64_t workspace = aligned(inner.workspace_bytes);
  for (const OperandDescription& result : natural.results) {
    offsets.push_back(workspace);
    workspace += aligned(bytes(result));
  }
  const ConversionKernels& kernels = environment.library->conversion;
  const auto finish = op.accumulate ? kernels.accumulate : kernels.convert;
  std::vector<void*> pieces(op.results.size());
  const auto launch = [=, results = op.results,
                       threads = environment.threads](const KernelArguments& arguments) mutable {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      pieces[i] = static_cast<char*>(arguments.workspace) + offsets[i];
    }
    inner.launch({arguments.operands, pieces, arguments.workspace, arguments.context});
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      finish(elements(results[i]), element_of(natural.results[i].dtype), pieces[i], element_of(results[i].dtype),
             arguments.results[i], threads);
    }
  };
  return {launch, workspace};
}

}  // namespace strata::cpu
