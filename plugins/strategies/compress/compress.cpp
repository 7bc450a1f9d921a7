#include "compress.hpp"

#include "power_sgd.hpp"
#include "top_k.hpp"

namespace compress {

using namespace strata;

std::vector<MeshAxis> Compress::axes() const { return {{settings_.axis, settings_.size}}; }

std::vector<Rule> Compress::rules() const { return {{"batch", settings_.axis, 20, Distribution::block, {}}}; }

std::vector<Axis> Compress::self_reduced_axes() const { return {settings_.axis}; }

bool Compress::wants_own_bucket(const ParameterDescription& parameter) const {
  return settings_.size > 1 && is_compressed(parameter, parameter.elements);
}

/// Biases and the weights of norms, which neither decay nor stand in a product, are small and have no second side.
bool Compress::is_compressed(const ParameterDescription& parameter, std::int64_t piece) const {
  const bool is_matrix = parameter.decay || !parameter.contracted.empty();
  if (!is_matrix || parameter.elements < settings_.smallest) return false;
  return settings_.method == Method::top_k ? shrinks(TopK{settings_.density}, piece, settings_.size)
                                           : shrinks(PowerSgd{settings_.rank}, parameter, piece);
}

void Compress::reduce_gradient(ReductionContext& context) const {
  const ParameterDescription* parameter = context.parameter();
  if (parameter == nullptr || !is_compressed(*parameter, context.elements()))
    return GradientHooks::reduce_gradient(context);
  if (settings_.method == Method::top_k) {
    emit_reduction(TopK{settings_.density}, context);
  } else {
    emit_reduction(PowerSgd{settings_.rank}, context);
  }
}

void Compress::define_gradient(DefinedGradient& gradient) const {
  // All pieces of a parameter have the same size. Those of a parameter that is not alone hold others too.
  if (!wants_own_bucket(gradient.parameter) || !is_compressed(gradient.parameter, gradient.pieces.front().size)) {
    return GradientHooks::define_gradient(gradient);
  }
  if (settings_.method == Method::top_k) {
    define_reduction(TopK{settings_.density}, gradient);
  } else {
    define_reduction(PowerSgd{settings_.rank}, gradient);
  }
}

}  // namespace compress
