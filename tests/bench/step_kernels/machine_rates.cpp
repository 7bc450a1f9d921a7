#include "step_kernels/machine_rates.hpp"

#include <algorithm>
#include <utility>

namespace strata::bench {
namespace {

OpInstance square_product(DType dtype, std::int64_t size) {
  OpInstance instance;
  instance.op = "linear";
  instance.name = "square matrix product";
  instance.attributes = {{"result", std::string("rows columns")}};
  instance.operands = {{dtype, {"rows", "depth"}, {size, size}}, {dtype, {"depth", "columns"}, {size, size}}};
  instance.results = {{dtype, {"rows", "columns"}, {size, size}}};
  for (const char* dim : {"rows", "depth", "columns"}) instance.index_maps[dim] = IndexMap::whole(size);
  return instance;
}

}  // namespace

double MachineRates::floor_seconds(const StepKernel& kernel) const {
  return std::max(kernel.flops / flops_per_second, kernel.bytes / bytes_per_second);
}

bool MachineRates::is_bound_by_memory(const StepKernel& kernel) const {
  return kernel.bytes / bytes_per_second > kernel.flops / flops_per_second;
}

MachineRates measure_machine(KernelTimer& timer, const OpRegistry& registry, DType dtype,
                             const std::vector<std::int64_t>& sizes, std::int64_t copy_bytes) {
  MachineRates rates;
  rates.bytes_per_second = 2.0 * static_cast<double>(copy_bytes) / timer.copy_seconds(copy_bytes);
  for (const std::int64_t size : sizes) {
    const StepKernel product = describe_kernel(square_product(dtype, size), registry);
    rates.flops_per_second = std::max(rates.flops_per_second, product.flops / timer.seconds(product));
  }
  return rates;
}

}  // namespace strata::bench
