#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strata/export.hpp"
#include "strata/options.hpp"
#include "strata/tensor.hpp"

namespace strata {

/// \file
/// Models as Hugging Face publishes them: a file config.json and safetensors files.

/// The fields of a config.json. Fields of nested objects have paths, such as "rope_scaling.factor". Elements of a list
/// that holds neither numbers nor words have their index as name.
class STRATA_API HuggingFaceFields {
 public:
  /// A field without a value is null in the file.
  using Values = std::map<std::string, std::optional<OptionValue>>;

  HuggingFaceFields() = default;
  explicit HuggingFaceFields(Values values) : values_(std::move(values)) {}

  /// All fields, by their paths.
  [[nodiscard]] const Values& values() const { return values_; }
  /// True if the file has the field, even as null.
  [[nodiscard]] bool contains(const std::string& field) const { return values_.contains(field); }
  /// The value of a field. Null if the file lacks the field, or has it as null or as an object.
  [[nodiscard]] const OptionValue* find(const std::string& field) const;
  /// True if the file has a value for the field, or fields within it.
  [[nodiscard]] bool has_value(const std::string& field) const;

  /// The value of a field. `otherwise`: the value if the file lacks the field or it is null. \throws OptionError with
  /// the field, what was found and what is accepted, if it has another type, or is missing without `otherwise`.
  /// A field written as 8192.0 is no integer.
  [[nodiscard]] std::int64_t integer(const std::string& field, std::optional<std::int64_t> otherwise = {}) const;
  /// Like integer(), for a number. An integer is one too.
  [[nodiscard]] double number(const std::string& field, std::optional<double> otherwise = {}) const;
  /// Like integer(), for true or false.
  [[nodiscard]] bool boolean(const std::string& field, std::optional<bool> otherwise = {}) const;
  /// Like integer(), for a text.
  [[nodiscard]] std::string word(const std::string& field, const std::optional<std::string>& otherwise = {}) const;
  /// A list of texts. Empty if the file lacks the list or it is null. \throws OptionError if the field is something
  /// else.
  [[nodiscard]] std::vector<std::string> words(const std::string& field) const;

  /// \throws OptionError if the file has the field with another value than `accepted`, which is what a file without
  /// the field or with null means. 1 and 1.0 are equal.
  void require(const std::string& field, const OptionValue& accepted) const;

  /// Sets a field, which replaces its old value.
  void set(const std::string& field, OptionValue value) { values_[field] = std::move(value); }
  /// Sets a field to null.
  void set_null(const std::string& field) { values_[field] = std::nullopt; }

 private:
  Values values_;
};

/// The elements of a Hugging Face tensor that belong to one parameter. The slice of the tensor that belongs to the
/// parameter is the whole tensor, or `slice_size` indices of the dim `slice_dim` from `slice_begin` on. The parameter's
/// elements in row-major order are those of the slice. If `transposed`, they are those of the slice, a matrix, with its
/// two dims exchanged.
///
/// Example: a parameter [embed heads head_dim] of a Hugging Face linear layer, whose matrix is [out in], has the shape
/// {heads * head_dim, embed} and is transposed.
struct HuggingFaceTensor {
  /// Name in the Hugging Face files.
  std::string name;
  /// Name of the model's parameter.
  std::string parameter;
  /// Shape of the whole Hugging Face tensor.
  Shape shape;
  bool transposed = false;
  int slice_dim = 0;
  std::int64_t slice_begin = 0;
  /// 0: the whole tensor.
  std::int64_t slice_size = 0;
  /// The indices of the parameter's first dim that the tensor has, if several tensors make one parameter, such as the
  /// matrices of experts. Size 0: all of them. Such a tensor is whole, and not transposed.
  std::int64_t parameter_begin = 0;
  std::int64_t parameter_size = 0;
};

/// The tensors of a Hugging Face model.
struct HuggingFaceTensors {
  /// Every element of the model's parameters once. Slices of a tensor do not overlap and leave nothing out.
  std::vector<HuggingFaceTensor> tensors = {};
  /// Tensors that Hugging Face files may repeat, and the tensors whose values they have: {"lm_head.weight",
  /// "wte.weight"} for a tied output projection. Exported files lack them.
  std::map<std::string, std::string> copies = {};
  /// Patterns of names that hold no parameters, such as buffers with masks: "*.attn.bias". `*` stands for any text.
  std::vector<std::string> ignored = {};
  /// A beginning of names that Hugging Face files may lack, such as "transformer.". Exported files have it.
  std::string optional_prefix = {};
};

/// The form of a model plugin's models in Hugging Face's files. The host knows no model: it asks every model plugin
/// that is installed.
class STRATA_API HuggingFaceFormat {
 public:
  virtual ~HuggingFaceFormat();
  /// The options of the model that a config.json describes; options that are not set keep their defaults. Empty if the
  /// file describes a model of another plugin. \throws OptionError with the field, what was found and what is accepted,
  /// if the model cannot compute what the field says.
  [[nodiscard]] virtual std::optional<Options> options(const HuggingFaceFields& config) const = 0;
  /// The config.json of a model with all options set. `sizes`: those that the data fixed, such as "vocab". The host
  /// adds the type of the tensors. \throws OptionError with the option, if no Hugging Face model is like that.
  [[nodiscard]] virtual HuggingFaceFields config(const Options& options, const DimSizes& sizes) const = 0;
  /// The tensors of that model.
  [[nodiscard]] virtual HuggingFaceTensors tensors(const Options& options, const DimSizes& sizes) const = 0;
  /// The families that options() reads, as config.json names them in `model_type`, for messages. Default: none.
  [[nodiscard]] virtual std::vector<std::string> families() const;
};

}  // namespace strata
