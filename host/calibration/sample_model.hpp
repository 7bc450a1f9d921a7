#pragma once

#include <cstdint>
#include <vector>

#include "strata/model.hpp"

namespace strata::host {

/// Sizes of a SampleModel. Its width is heads · head_size.
struct SampleSizes {
  std::int64_t batch = 1;
  std::int64_t context = 32;
  std::int64_t heads = 4;
  std::int64_t head_size = 16;
  std::int64_t vocab = 256;

  [[nodiscard]] std::int64_t width() const { return heads * head_size; }
  /// Arithmetic of a training step in FLOPs, roughly.
  [[nodiscard]] double step_flops() const;
};

/// Sizes from little to much arithmetic, some with many tokens and some with wide layers.
[[nodiscard]] const std::vector<SampleSizes>& sample_sizes();

/// A language model of two layers that has the ops of today's models: one layer as GPT-2 has them, one as Llama has
/// them. Calibration times the kernels of its training step.
class SampleModel final : public Model {
 public:
  explicit SampleModel(SampleSizes sizes) : sizes_(sizes) {}

  [[nodiscard]] DimSizes sizes() const override;
  void build(GraphBuilder& builder) const override;

 private:
  SampleSizes sizes_;
};

}  // namespace strata::host
