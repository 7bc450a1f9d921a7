#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strata::host {

/// A file that belongs to a model besides its tensors, such as its tokenizer. Checkpoints carry such files unread.
struct ModelFile {
  std::string name;
  std::string bytes;

  bool operator==(const ModelFile&) const = default;
};
using ModelFiles = std::vector<ModelFile>;

/// The folder of these files in a checkpoint.
inline constexpr const char* kModelFilesFolder = "tokenizer";

/// True if `name` is a file's name that leads neither into a folder nor out of one, and is not hidden.
[[nodiscard]] bool is_plain_name(std::string_view name);
/// True for the path of a model's file in a checkpoint, such as "tokenizer/tokenizer.json".
[[nodiscard]] bool is_model_file(std::string_view path);

}  // namespace strata::host
