#pragma once

#include "settings.hpp"
#include "strata/strategy.hpp"

namespace localsgd {

/// Local SGD with an outer optimizer (DiLoCo: Douillard et al., "DiLoCo: Distributed Low-Communication Training of
/// Language Models", 2023). Replicas train apart for some inner steps. The outer gradient is how far they have moved on
/// average. An outer step of gradient descent with Nesterov momentum follows it, and all replicas continue from there.
///
/// Fragments and overlap are those of Douillard et al., "Streaming DiLoCo with overlapping communication", 2025: groups
/// of blocks take turns, and an exchange takes the time of a step, whose own progress is mixed in.
class LocalSgd final : public strata::Strategy, public strata::ReplicaHooks {
 public:
  explicit LocalSgd(Settings settings) : settings_(std::move(settings)) {}

  [[nodiscard]] std::vector<strata::MeshAxis> axes() const override;
  [[nodiscard]] std::vector<strata::Rule> rules() const override;
  [[nodiscard]] std::vector<strata::Axis> unsynchronized_axes() const override;
  [[nodiscard]] strata::Conversion convert(const strata::PlannedCollective& collective) const override;
  [[nodiscard]] int fragment(const strata::ParameterDescription& parameter) const override;
  void work_on_bucket(strata::BucketContext& context) const override;
  void define(strata::DefinedReplicas& replicas) const override;

 private:
  Settings settings_;
};

}  // namespace localsgd
