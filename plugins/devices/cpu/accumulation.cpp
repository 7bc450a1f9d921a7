#include <vector>

#include "compute_kernel.hpp"

namespace strata::cpu {

ComputeKernel prepare_with_accumulation(const KernelEntry& entry, const OpInstance& op,
                                        const Environment& environment) {
  OpInstance plain = op;
  plain.accumulate = false;
  const ComputeKernel inner = entry.prepare(plain, environment);
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> offsets;
  std::int64_t workspace = aligned(inner.workspace_bytes);
  for (const OperandDescription& result : op.results) {
    sizes.push_back(elements(result));
    offsets.push_back(workspace);
    workspace += aligned(bytes(result));
  }
  std::vector<void*> pieces(sizes.size());
  const auto launch = [=](const KernelArguments& arguments) mutable {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      pieces[i] = static_cast<char*>(arguments.workspace) + offsets[i];
    }
    inner.launch({arguments.operands, pieces, arguments.workspace, arguments.context});
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      environment.library->elementwise.accumulate(sizes[i], static_cast<const float*>(pieces[i]),
                                                  f32_result(arguments, i), environment.threads);
    }
  };
  return {launch, workspace};
}

}  // namespace strata::cpu
