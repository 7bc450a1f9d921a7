#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "files/file_io.hpp"
#include "strata/tensor.hpp"

namespace strata::host {

/// \file
/// The safetensors format of Hugging Face: 8 bytes with the length of the header, a JSON header, the tensors' bytes.

/// A tensor in a file, or to be written to one.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;

  [[nodiscard]] std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(element_count(shape)) * size_of(dtype);
  }
};

/// Sorts tensors into the order of a file: by descending element size, so that all are aligned, then by name.
void sort_for_safetensors(std::vector<SafetensorsTensor>& tensors);

/// Length and header of a file with `tensors` in this order. Their data follows without gaps.
[[nodiscard]] std::string safetensors_header(const std::vector<SafetensorsTensor>& tensors,
                                             const std::map<std::string, std::string>& metadata);

/// The tensors of a mapped file.
class SafetensorsFile {
 public:
  /// \throws RuntimeError with the path if the file violates the format.
  explicit SafetensorsFile(const std::filesystem::path& path);

  struct Entry {
    SafetensorsTensor tensor;
    std::span<const std::byte> data;
  };
  [[nodiscard]] const std::map<std::string, Entry>& tensors() const { return tensors_; }
  /// The tensors whose type Strata lacks, such as masks of type "BOOL", and their types. tensors() lacks them.
  [[nodiscard]] const std::map<std::string, std::string>& foreign_types() const { return foreign_types_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The bytes of the whole file, for its checksum.
  [[nodiscard]] std::span<const std::byte> bytes() const { return file_.bytes(); }

 private:
  void parse();

  MappedFile file_;
  std::map<std::string, Entry> tensors_;
  std::map<std::string, std::string> foreign_types_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace strata::host
