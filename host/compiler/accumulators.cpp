#include "compiler/accumulators.hpp"

#include <algorithm>

namespace strata::host {
namespace {

std::string name_of(const Sink& sink) {
  if (sink.kind == Sink::Kind::parameter_gradient) return sink.name + ".gradient";
  return sink.kind == Sink::Kind::loss ? "loss" : "count";
}

}  // namespace

DType accumulation_type(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }

BufferId Accumulators::buffer(const Sink& sink, const AxisSet& partial) {
  PartialAccumulators& accumulators = of(sink);
  const auto known = accumulators.find(partial);
  if (known != accumulators.end()) return known->second;
  const std::string suffix = partial.empty() ? "" : " partial " + join({partial.begin(), partial.end()}, "+");
  const TensorType& type = graph_.type(sink.value);
  const Shape shape = rules_.local_shape(type.dims, rules_.canonical(type.dims));
  const BufferId buffer = builder_.add_buffer(name_of(sink) + suffix, BufferKind::gradient,
                                              accumulation_type(type.dtype), type.dims, shape, true);
  accumulators.emplace(partial, buffer);
  return buffer;
}

/// Keeps parameters in the order of their latest contribution: the last to complete comes last.
PartialAccumulators& Accumulators::of(const Sink& sink) {
  if (sink.kind == Sink::Kind::loss) return result_.loss;
  if (sink.kind == Sink::Kind::count) return result_.count;
  auto& gradients = result_.gradients;
  const auto found =
      std::find_if(gradients.begin(), gradients.end(), [&](const auto& each) { return each.first == sink.name; });
  if (found == gradients.end()) {
    gradients.emplace_back(sink.name, PartialAccumulators{});
  } else {
    std::rotate(found, found + 1, gradients.end());
  }
  return gradients.back().second;
}

}  // namespace strata::host
