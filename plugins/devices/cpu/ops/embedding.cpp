#include "index_map.hpp"
#include "ops/operations.hpp"

namespace strata::cpu {

ComputeKernel prepare_embedding(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> ComputeKernel {
    const auto forward = environment.library->embedding.template of<T>().forward;
    const std::int64_t count = elements(op.operands[1]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, table_rows = DimIndices(op, op.operands[0].dims[0]),
             threads = environment.threads](const KernelArguments& arguments) mutable {
      forward(count, table_rows.local_size(), width, table_rows.map(0), in<T>(arguments, 0), i32(arguments, 1),
              out<T>(arguments, 0), threads);
    }};
  });
}

ComputeKernel prepare_embedding_gradient(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> ComputeKernel {
    const auto gradient = environment.library->embedding.template of<T>().gradient;
    const std::int64_t count = elements(op.operands[1]);
    const std::int64_t width = columns(op.results[0]);
    return {[=, table_rows = DimIndices(op, op.results[0].dims[0]), accumulate = op.accumulate,
             threads = environment.threads](const KernelArguments& arguments) mutable {
      gradient(count, table_rows.local_size(), width, table_rows.map(0), in<T>(arguments, 0), i32(arguments, 1),
               f32_result(arguments, 0), accumulate, threads);
    }};
  });
}

}  // namespace strata::cpu
