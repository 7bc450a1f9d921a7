#pragma once

#include <cstdint>
#include <string>

#include "strata/huggingface.hpp"
#include "strata/options.hpp"

namespace vit {

/// Sizes and dropout rates of one ViT.
struct Settings {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t embed = 768;
  std::int64_t ffn = 3072;
  /// Pixels of a side of a patch, which is a square.
  std::int64_t patch = 16;
  std::int64_t height = 224;
  std::int64_t width = 224;
  std::int64_t channels = 3;
  /// Classes; 0: as many as the data has.
  std::int64_t classes = 0;
  /// True if a class token stands before the patches and is classified. Otherwise the mean of all patches is.
  bool class_token = true;
  double dropout = 0;
  double attention_dropout = 0;
  double label_smoothing = 0;

  [[nodiscard]] std::int64_t rows() const { return height / patch; }
  [[nodiscard]] std::int64_t columns() const { return width / patch; }
  /// Tokens of an image.
  [[nodiscard]] std::int64_t tokens() const { return rows() * columns() + (class_token ? 1 : 0); }
};

/// Settings of the size that the options name, with the options that override it. \throws strata::OptionError if the
/// number of heads does not divide embed, or the patch does not divide the image.
[[nodiscard]] Settings settings_from(const strata::Options& options);

/// ViT with the names and the layout of torchvision's VisionTransformer, whose arguments config.json has as fields.
class VitFormat final : public strata::HuggingFaceFormat {
 public:
  [[nodiscard]] std::optional<strata::Options> options(const strata::HuggingFaceFields& config) const override;
  [[nodiscard]] strata::HuggingFaceFields config(const strata::Options& options,
                                                 const strata::DimSizes& sizes) const override;
  [[nodiscard]] strata::HuggingFaceTensors tensors(const strata::Options& options,
                                                   const strata::DimSizes& sizes) const override;
  [[nodiscard]] std::vector<std::string> families() const override { return {"torchvision_vit"}; }
};

}  // namespace vit
