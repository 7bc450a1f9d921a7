#include "device/fitting.hpp"

#include <vector>

#include "ops/conversion.hpp"
#include "shared/operand_types.hpp"

namespace strata::cuda {
namespace {

const devices::DeviceTypes kTypes = {.reals = {DType::f32, DType::bf16, DType::f16, DType::f64},
                                     .indices = {DType::i32}};

devices::KernelSignature signature(const KernelEntry& entry) {
  return {entry.operands, entry.results, entry.accumulates};
}

}  // namespace

std::optional<std::string> type_mismatch(const KernelEntry& entry, const OpInstance& op) {
  return devices::type_mismatch(signature(entry), op, kTypes);
}

PreparedOp prepare_fitting(const KernelEntry& entry, const OpInstance& op, const Environment& environment) {
  const devices::NaturalInstance natural = devices::natural_instance(signature(entry), op, kTypes);
  const PreparedOp inner = entry.prepare(natural.op, environment);
  if (natural.is_wanted) return inner;

  std::vector<std::int64_t> offsets;
  WorkspacePlan workspace;
  workspace.reserve(inner.workspace_bytes);
  for (const OperandDescription& result : natural.op.results) offsets.push_back(workspace.reserve(bytes(result)));
  const auto finish = op.accumulate ? launch_accumulate : launch_convert;
  std::vector<void*> pieces(op.results.size());
  const auto launch = [=, from = natural.op.results, to = op.results](const KernelArguments& arguments,
                                                                      Stream stream) mutable {
    for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i] = workspace_at<char>(arguments, offsets[i]);
    inner.launch({arguments.operands, pieces, arguments.workspace, arguments.context}, stream);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      finish(stream, elements(to[i]), {from[i].dtype, pieces[i]}, {to[i].dtype, arguments.results[i]});
    }
  };
  return {launch, workspace.bytes()};
}

}  // namespace strata::cuda
