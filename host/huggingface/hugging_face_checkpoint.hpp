#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "config/run_configuration.hpp"
#include "huggingface/hugging_face_files.hpp"
#include "huggingface/hugging_face_model.hpp"
#include "loading/plugin_registry.hpp"

namespace strata::host {

/// A folder of Hugging Face, read as a checkpoint of step 0 that has the values of the model's parameters alone. Its
/// configuration is the smallest that has the model.
class HuggingFaceCheckpoint final : public CheckpointReader {
 public:
  /// `libraries`: those that bring ops of the model. \throws ConfigurationError if no model plugin reads the
  /// config.json. \throws RuntimeError that lists all tensors that are missing, unexpected or of another shape.
  [[nodiscard]] static std::unique_ptr<HuggingFaceCheckpoint> open(const std::filesystem::path& folder,
                                                                   PluginRegistry& registry,
                                                                   const std::vector<PluginSection>& libraries);

  [[nodiscard]] ModelFiles model_files() const override;
  /// Where the parameters lie in the tensors of the files.
  [[nodiscard]] const HuggingFaceLayout& layout() const { return layout_; }

 protected:
  void gather(const std::string& name, const TensorPart& part, std::byte* destination) const override;

 private:
  /// A tensor that has elements of a parameter, from number `first` on.
  struct Piece {
    TensorView view;
    std::span<const std::byte> data;
    std::int64_t first = 0;
  };
  /// The tensors that have the elements of a parameter, in their order.
  struct Source {
    DType dtype = DType::f32;
    std::vector<Piece> pieces;
  };

  HuggingFaceCheckpoint(Manifest manifest, HuggingFaceFiles files, HuggingFaceLayout layout,
                        std::map<std::string, Source> sources);

  HuggingFaceFiles files_;
  HuggingFaceLayout layout_;
  std::map<std::string, Source> sources_;
};

/// True if `folder` has a config.json and is no checkpoint.
[[nodiscard]] bool is_hugging_face_folder(const std::filesystem::path& folder);

}  // namespace strata::host
