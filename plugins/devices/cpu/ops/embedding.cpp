#include "kernels/embedding.hpp"

#include "cpu_kernel.hpp"
#include "dim_indices.hpp"
#include "operands.hpp"

namespace strata::cpu {
namespace {

PreparedKernel prepare_embedding(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto forward = embedding_kernels(environment.instruction_set()).of<T>().forward;
    const std::int64_t count = elements(op.operands[1]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, table_rows = DimIndices(op, op.operands[0].dims[0]),
             threads = environment.threads()](const KernelArguments& arguments) mutable {
      forward(count, table_rows.local_size(), width, table_rows.map(0), in<T>(arguments, 0), i32(arguments, 1),
              out<T>(arguments, 0), threads);
    }};
  });
}

PreparedKernel prepare_embedding_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto gradient = embedding_kernels(environment.instruction_set()).of<T>().gradient;
    const std::int64_t count = elements(op.operands[1]);
    const std::int64_t width = columns(op.results[0]);
    return {[=, table_rows = DimIndices(op, op.results[0].dims[0]), accumulate = op.accumulate,
             threads = environment.threads()](const KernelArguments& arguments) mutable {
      gradient(count, table_rows.local_size(), width, table_rows.map(0), in<T>(arguments, 0), i32(arguments, 1),
               f32_result(arguments, 0), accumulate, threads);
    }};
  });
}

}  // namespace

void register_embedding(Registration& registration) {
  registration.add(kernel({"embedding", "ti", "t", prepare_embedding}));
  registration.add(kernel({"embedding_gradient", "ti", "f", prepare_embedding_gradient, true}));
}

}  // namespace strata::cpu
