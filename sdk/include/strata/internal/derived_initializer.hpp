#pragma once

#include <span>
#include <string>
#include <vector>

#include "strata/export.hpp"
#include "strata/graph.hpp"

namespace strata {

/// Initial values that follow from those of another tensor, such as the codes of a weight that is stored in 4 bits. A
/// strategy that replaces a parameter of the model by others gives them as Initialization::custom(). The host then
/// computes the values of the replaced parameter, whole and in f32: those of the checkpoint from which training starts,
/// or without one those that the replaced parameter would have had. Implementations keep no state, because several
/// threads call them.
class STRATA_API DerivedInitializer : public Initializer {
 public:
  /// The replaced parameter: a tensor of the model's checkpoints that is not a parameter of the graph.
  struct Source {
    std::string name;
    Shape shape;
    Initialization initialization;
  };

  ~DerivedInitializer() override;
  [[nodiscard]] virtual const Source& source() const = 0;
  /// All values of the parameter that is initialised, in row-major order. `source`: all values of the replaced one.
  [[nodiscard]] virtual std::vector<float> derive(std::span<const float> source) const = 0;

  /// \throws VerificationError, because no value can be computed alone. The host calls derive().
  [[nodiscard]] double value(std::span<const std::int64_t> index, const Shape& shape, std::uint64_t key) const final;
};

/// The initializer as a derived one. Null if it is none.
[[nodiscard]] inline const DerivedInitializer* derived_initializer(const Initialization& initialization) {
  return dynamic_cast<const DerivedInitializer*>(initialization.initializer.get());
}

}  // namespace strata
