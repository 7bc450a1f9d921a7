#pragma once

#include "settings.hpp"
#include "strata/strategy.hpp"

namespace compress {

/// Data parallelism over slow links: workers along the axis exchange compressed gradients. What compression loses is
/// kept, and added to the next gradient (error feedback), so that in the sum over steps nothing is lost.
class Compress final : public strata::Strategy, public strata::GradientHooks {
 public:
  explicit Compress(Settings settings) : settings_(std::move(settings)) {}

  [[nodiscard]] std::vector<strata::MeshAxis> axes() const override;
  [[nodiscard]] std::vector<strata::Rule> rules() const override;
  [[nodiscard]] std::vector<strata::Axis> self_reduced_axes() const override;
  [[nodiscard]] bool wants_own_bucket(const strata::ParameterDescription& parameter) const override;
  void reduce_gradient(strata::ReductionContext& context) const override;
  void define_gradient(strata::DefinedGradient& gradient) const override;

 private:
  [[nodiscard]] bool is_compressed(const strata::ParameterDescription& parameter, std::int64_t piece) const;

  Settings settings_;
};

}  // namespace compress
