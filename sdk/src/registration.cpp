#include "strata/registration.hpp"

#include <utility>

namespace strata {
namespace ops {
void register_ops(Registration& registration);
}

Registration::Registration(OpRegistry& ops, KernelRegistry& kernels, std::string origin)
    : ops_(ops), kernels_(kernels), origin_(std::move(origin)) {}

void Registration::add(std::unique_ptr<OpDefinition> definition) { ops_.add(std::move(definition), origin_); }

void Registration::add(KernelDefinition kernel) { kernels_.add(std::move(kernel), origin_); }

void register_core(OpRegistry& ops, KernelRegistry& kernels) {
  Registration registration(ops, kernels, kCoreOrigin);
  ops::register_ops(registration);
}

}  // namespace strata
