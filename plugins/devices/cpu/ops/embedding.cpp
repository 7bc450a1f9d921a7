#include "cpu_kernel.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu {
namespace {

PreparedKernel prepare_embedding(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    const DimIndices table_rows(op, op.operands[0].dims[0]);
    return call(embedding_kernels(environment.instruction_set()).of<T>().forward, elements(op.operands[1]),
                table_rows.local_size(), columns(op.operands[0]), table_rows, Operand<T>{0}, Operand<std::int32_t>{1},
                Result<T>{0}, environment.threads());
  });
}

PreparedKernel prepare_embedding_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    const DimIndices table_rows(op, op.results[0].dims[0]);
    return call(embedding_kernels(environment.instruction_set()).of<T>().gradient, elements(op.operands[1]),
                table_rows.local_size(), columns(op.results[0]), table_rows, Operand<T>{0}, Operand<std::int32_t>{1},
                Result<float>{0}, op.accumulate, environment.threads());
  });
}

}  // namespace

void register_embedding(Registration& registration) {
  registration.add(kernel({"embedding", "ti", "t", prepare_embedding}));
  registration.add(kernel({"embedding_gradient", "ti", "f", prepare_embedding_gradient, true}));
}

}  // namespace strata::cpu
