#include "checkpoint/model_files.hpp"

namespace strata::host {

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

bool is_model_file(std::string_view path) {
  const std::string_view folder = kModelFilesFolder;
  return path.starts_with(folder) && path.substr(folder.size()).starts_with('/') &&
         is_plain_name(path.substr(folder.size() + 1));
}

}  // namespace strata::host
