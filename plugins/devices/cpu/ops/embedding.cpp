#include "cpu_kernel.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu {

void register_embedding(Registration& registration) {
  add(registration, {"embedding", "ti", "t"}, []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
    const DimIndices table_rows(op, op.operands[0].dims[0]);
    return call(embedding_kernels(environment.instruction_set()).of<T>().forward, elements(op.operands[1]),
                table_rows.local_size(), columns(op.operands[0]), table_rows, Operand<T>{0}, Operand<std::int32_t>{1},
                Result<T>{0}, environment.threads());
  });
  add(registration, {"embedding_gradient", "ti", "f", true},
      []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
        const DimIndices table_rows(op, op.results[0].dims[0]);
        return call(embedding_kernels(environment.instruction_set()).of<T>().gradient, elements(op.operands[1]),
                    table_rows.local_size(), columns(op.results[0]), table_rows, Operand<T>{0},
                    Operand<std::int32_t>{1}, Result<float>{0}, op.accumulate, environment.threads());
      });
}

}  // namespace strata::cpu
