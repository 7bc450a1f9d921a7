#include "strata/attention_kernel.hpp"

#include <cmath>

#include "strata/kernel_tools.hpp"

namespace strata::kernels {

double attention_scale(const OpInstance& op) {
  if (op.attributes.has("scale")) return op.attributes.number("scale");
  return 1.0 / std::sqrt(static_cast<double>(columns(op.operands[0])));
}

}  // namespace strata::kernels
