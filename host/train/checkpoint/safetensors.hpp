#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "strata/tensor.hpp"
#include "train/checkpoint/file_io.hpp"

namespace strata::host {

/// \file
/// The safetensors format (Hugging Face): 8 bytes with the header's length, a JSON header, then the tensors' bytes.

/// A tensor that a file holds or shall hold.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;

  [[nodiscard]] std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(element_count(shape)) * size_of(dtype);
  }
};

/// Sorts into the order in which a file holds its tensors: large elements first, so that all are aligned; then by name.
void sort_for_safetensors(std::vector<SafetensorsTensor>& tensors);

/// The first bytes of a file that holds `tensors`, in that order; their data follows without gaps.
[[nodiscard]] std::string safetensors_header(const std::vector<SafetensorsTensor>& tensors,
                                             const std::map<std::string, std::string>& metadata);

/// A file's tensors, read where they lie.
class SafetensorsFile {
 public:
  /// \throws RuntimeError with the path for whatever is not as the format says.
  explicit SafetensorsFile(const std::filesystem::path& path);

  struct Entry {
    SafetensorsTensor tensor;
    std::span<const std::byte> data;
  };
  [[nodiscard]] const std::map<std::string, Entry>& tensors() const { return tensors_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The whole file, for its checksum.
  [[nodiscard]] std::span<const std::byte> bytes() const { return file_.bytes(); }

 private:
  void parse();

  MappedFile file_;
  std::map<std::string, Entry> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace strata::host
