#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "strata/huggingface.hpp"
#include "strata/options.hpp"

namespace resnet {

/// Sizes of one ResNet. Stages count from 0.
struct Settings {
  /// True for blocks of 1 x 1, 3 x 3 and 1 x 1 pixels, false for two of 3 x 3.
  bool is_bottleneck = false;
  /// Residual blocks of each stage.
  std::vector<std::int64_t> layers = {2, 2, 2, 2};
  /// Inner channels of the first stage. Each further stage has twice as many.
  std::int64_t planes = 64;
  /// True for a first convolution of 3 x 3 pixels, without pooling. Otherwise it has 7 x 7, and the stem divides the
  /// image by 4.
  bool is_small_stem = false;
  std::int64_t height = 224;
  std::int64_t width = 224;
  std::int64_t channels = 3;
  /// Classes; 0: as many as the data has.
  std::int64_t classes = 0;
  double label_smoothing = 0;

  [[nodiscard]] std::size_t stages() const { return layers.size(); }
  [[nodiscard]] std::int64_t inner(std::size_t stage) const { return planes << stage; }
  /// Channels between the blocks of a stage.
  [[nodiscard]] std::int64_t outer(std::size_t stage) const { return inner(stage) * (is_bottleneck ? 4 : 1); }
  /// Pixels of the stem's window.
  [[nodiscard]] std::int64_t stem_window() const { return is_small_stem ? 3 : 7; }
  /// True if the first block of a stage changes the size of its input, so that its shortcut is a convolution.
  [[nodiscard]] bool has_downsample(std::size_t stage) const { return stage > 0 || is_bottleneck; }
};

/// Settings of the size that the options name, with the options that override it. \throws strata::OptionError if
/// `layers` has a number that is not whole, or too many.
[[nodiscard]] Settings settings_from(const strata::Options& options);

/// ResNet with the names and the layout of torchvision's ResNet, whose arguments config.json has as fields.
class ResnetFormat final : public strata::HuggingFaceFormat {
 public:
  [[nodiscard]] std::optional<strata::Options> options(const strata::HuggingFaceFields& config) const override;
  [[nodiscard]] strata::HuggingFaceFields config(const strata::Options& options,
                                                 const strata::DimSizes& sizes) const override;
  [[nodiscard]] strata::HuggingFaceTensors tensors(const strata::Options& options,
                                                   const strata::DimSizes& sizes) const override;
  [[nodiscard]] std::vector<std::string> families() const override { return {"torchvision_resnet"}; }
};

}  // namespace resnet
