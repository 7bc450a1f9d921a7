#include "compute_kernel.hpp"

#include <vector>

namespace strata::cpu {
namespace {

const devices::DeviceTypes kTypes = {.reals = {DType::f32, DType::bf16, DType::f16}, .indices = {DType::i32}};

devices::KernelSignature signature(const KernelEntry& entry) {
  return {entry.operands, entry.results, entry.accumulates};
}

}  // namespace

std::optional<std::string> type_mismatch(const KernelEntry& entry, const OpInstance& op) {
  return devices::type_mismatch(signature(entry), op, kTypes);
}

ComputeKernel prepare_fitting(const KernelEntry& entry, const OpInstance& op, const Environment& environment) {
  const devices::NaturalInstance natural = devices::natural_instance(signature(entry), op, kTypes);
  const ComputeKernel inner = entry.prepare(natural.op, environment);
  if (natural.is_wanted) return inner;

  std::vector<std::int64_t> offsets;
  devices::WorkspacePlan workspace;
  workspace.reserve(inner.workspace_bytes);
  for (const OperandDescription& result : natural.op.results) offsets.push_back(workspace.reserve(bytes(result)));
  const ConversionKernels& kernels = environment.library->conversion;
  const auto finish = op.accumulate ? kernels.accumulate : kernels.convert;
  std::vector<void*> pieces(op.results.size());
  const auto launch = [=, from = natural.op.results, to = op.results,
                       threads = environment.threads](const KernelArguments& arguments) mutable {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      pieces[i] = static_cast<char*>(arguments.workspace) + offsets[i];
    }
    inner.launch({arguments.operands, pieces, arguments.workspace, arguments.context});
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      finish(elements(to[i]), element_of(from[i].dtype), pieces[i], element_of(to[i].dtype), arguments.results[i],
             threads);
    }
  };
  return {launch, workspace.bytes()};
}

}  // namespace strata::cpu
