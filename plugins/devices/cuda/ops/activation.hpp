#pragma once

#include <string>
#include <vector>

#include "device/cuda_kernel.hpp"
#include "kernels/activation.cuh"

namespace strata::cuda {

/// The names of activations, in the order of the list.
template <class... Kinds>
std::vector<std::string> names_of(ActivationList<Kinds...> /*kinds*/) {
  return {Kinds::kKind...};
}

// The kernel of an activation. Ops that include an activation use it too.
PreparedKernel prepare_activation(const OpInstance& op);
PreparedKernel prepare_activation_gradient(const OpInstance& op);

}  // namespace strata::cuda
