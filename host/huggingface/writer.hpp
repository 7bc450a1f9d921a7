#pragma once

#include <map>
#include <string>
#include <vector>

#include "files/new_folder.hpp"
#include "huggingface/export_model.hpp"
#include "huggingface/exported_values.hpp"
#include "huggingface/model.hpp"

namespace strata::host {

/// Writes the tensors of a Hugging Face model, in files of a limited size and with their index.
class HuggingFaceWriter {
 public:
  /// `shapes`: of the parameters. All references outlive the writer.
  HuggingFaceWriter(ExportedValues& values, const HuggingFaceLayout& layout, const std::map<std::string, Shape>& shapes,
                    const ExportSettings& settings);

  /// The type of most tensors.
  [[nodiscard]] DType main_dtype() const;
  [[nodiscard]] ModelSummary summary() const;
  void write(const NewFolder& folder) const;

 private:
  void write_file(const NewFolder& folder, const std::string& name,
                  const std::vector<SafetensorsTensor>& tensors) const;

  ExportedValues& values_;
  const HuggingFaceLayout& layout_;
  const std::map<std::string, Shape>& shapes_;
  /// The tensors of each file.
  std::vector<std::vector<SafetensorsTensor>> files_;
};

}  // namespace strata::host
