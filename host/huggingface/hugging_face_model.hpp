#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "loading/plugin_call.hpp"
#include "loading/plugin_registry.hpp"
#include "strata/huggingface.hpp"

namespace strata::host {

/// A model plugin that reads and writes Hugging Face's models.
struct HuggingFacePlugin {
  std::string name;
  const ModelFactory* factory = nullptr;
  const HuggingFaceFormat* format = nullptr;
  PluginOrigin origin;
};

/// A model plugin, and the options with which it is the model of a config.json.
struct RecognisedModel {
  HuggingFacePlugin plugin;
  std::map<std::string, OptionValue> options;
};

/// Asks all installed model plugins for the one whose model the config.json of `folder` describes. \throws
/// ConfigurationError with the path of config.json and the field if there is none, or if the plugin refuses a field.
[[nodiscard]] RecognisedModel recognise_model(const std::filesystem::path& folder, PluginRegistry& registry);

/// The plugin `name`. \throws ConfigurationError if it does not publish its models.
[[nodiscard]] HuggingFacePlugin hugging_face_plugin(const std::string& name, PluginRegistry& registry);

/// A parameter as a matrix whose element (row, column) lies at begin + row · row_pitch + column · column_pitch of a
/// tensor of Hugging Face. The parameter's elements in row-major order are those of the matrix.
struct TensorView {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t begin = 0;
  std::int64_t row_pitch = 0;
  std::int64_t column_pitch = 1;

  [[nodiscard]] std::int64_t elements() const { return rows * columns; }

  /// Copies the parameter's elements [first, first + count) from the tensor to `parameter`, which begins with them.
  void gather(const std::byte* tensor, std::int64_t first, std::int64_t count, std::size_t element_bytes,
              std::byte* parameter) const;
};

/// A part of a tensor of Hugging Face, and the parameter, or the part of one, that it is.
struct MappedParameter {
  HuggingFaceTensor where;
  TensorView view;
  /// The first of the parameter's elements that the tensor has.
  std::int64_t first = 0;
};

/// The tensors that a plugin describes, checked: all elements of each parameter of `shapes` once, all elements of each
/// tensor once.
class HuggingFaceLayout {
 public:
  /// `shapes`: of the model's parameters, by name. \throws PluginError if the plugin's description is impossible.
  HuggingFaceLayout(const HuggingFacePlugin& plugin, HuggingFaceTensors tensors,
                    const std::map<std::string, Shape>& shapes);

  /// The parameters in each tensor, by its name, in the order of their slices.
  [[nodiscard]] const std::map<std::string, std::vector<MappedParameter>>& by_tensor() const { return by_tensor_; }
  [[nodiscard]] const HuggingFaceTensors& description() const { return description_; }
  /// True if files may have a tensor of this name that belongs to no parameter.
  [[nodiscard]] bool ignores(const std::string& tensor) const;

 private:
  HuggingFaceTensors description_;
  std::map<std::string, std::vector<MappedParameter>> by_tensor_;
};

}  // namespace strata::host
