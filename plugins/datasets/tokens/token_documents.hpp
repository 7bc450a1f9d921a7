#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shared/data_option.hpp"
#include "strata/data_file.hpp"
#include "strata/dataset.hpp"

namespace datasets {

/// The largest number that a token may have.
inline constexpr double kLargestToken = std::numeric_limits<std::int32_t>::max();

/// The documents of a file of tokens: raw, with the header of llm.c, or the .idx file of Megatron-LM. They are kept in
/// memory.
class TokenDocuments {
 public:
  /// Opens the file that `option` names. The options are those of document_options(). `request`: its size "vocab"
  /// limits tokens. \throws OptionError of `option` if the file is damaged or has no document.
  TokenDocuments(const std::string& option, const strata::Options& options, const strata::DatasetRequest& request);

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(begins_.size()) - 1; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::string fingerprint() const { return strata::fingerprint(files_); }
  /// The tokens of a document, without the one that ends it, and no more than `most`.
  [[nodiscard]] std::vector<std::int32_t> read(std::int64_t document, std::int64_t most) const;

 private:
  std::string name_;
  std::vector<strata::DataFile> files_;
  std::vector<std::int32_t> tokens_;
  /// Where documents begin, and the end of the last one.
  std::vector<std::int64_t> begins_;
  /// Tokens at the end of each document that are no part of it: 0 or 1.
  std::int64_t ends_ = 0;
};

/// The options of datasets of documents: `type` and `document_end`, which say how documents are found, `tokenizer` and
/// `validation`.
[[nodiscard]] std::vector<strata::OptionSpecification> document_options();

/// Requires as many documents in `found` as in `first`. \throws OptionError of `option`.
void require_as_many(const std::string& option, const TokenDocuments& found, const TokenDocuments& first);

/// The documents of training, which come first, and of validation.
struct DocumentSplit {
  std::int64_t training = 0;
  std::int64_t validation = 0;

  /// \throws OptionError of `validation` if a part that the run needs is empty.
  DocumentSplit(std::int64_t documents, const strata::Options& options, const strata::DatasetRequest& request);
  [[nodiscard]] std::int64_t samples(strata::DataSplit split) const {
    return split == strata::DataSplit::training ? training : validation;
  }
  [[nodiscard]] std::int64_t document(const strata::SampleKey& key) const {
    return key.split == strata::DataSplit::training ? key.index : training + key.index;
  }
};

/// Adds `start_token` and `end_token`, the tokens around the texts of an encoder and a decoder.
void add_text_ends(std::vector<strata::OptionSpecification>& options);
/// Requires that the model's vocabulary has the tokens that the options `names` name. \throws OptionError of the first
/// that it lacks.
void require_tokens(const std::vector<std::string>& names, const strata::Options& options,
                    const strata::DatasetRequest& request);

/// The destinations of all inputs. Null for those that `given` leaves out.
[[nodiscard]] inline std::vector<void*> all_destinations(std::span<void* const> given, std::size_t inputs) {
  std::vector<void*> all(given.begin(), given.end());
  all.resize(inputs);
  return all;
}

/// Writes tokens and then `padding` up to `length`. Null `destination`: writes nothing.
void write_padded(const std::vector<std::int32_t>& tokens, std::int64_t length, std::int32_t padding,
                  void* destination);
/// Writes 1 for `tokens` tokens and then 0 up to `length`. Null `destination`: writes nothing.
void write_mask(std::size_t tokens, std::int64_t length, void* destination);

/// Writes the positions 0 to `length` - 1. Null `destination`: writes nothing.
void write_positions(std::int64_t length, void* destination);

/// The size of a dimension that the model fixes. \throws ConfigurationError if it fixes none.
[[nodiscard]] std::int64_t size_of_model(const strata::DatasetRequest& request, const std::string& dim);

/// The input "mask" of a sequence along `dim`: 1 for tokens, 0 for padding.
[[nodiscard]] strata::DatasetInput mask_input(const std::string& name, const strata::Dim& dim);
/// The inputs of an encoder and a decoder: "tokens" and "mask" [seq], "target_tokens", "target_mask" and "targets"
/// [target_seq].
[[nodiscard]] std::vector<strata::DatasetInput> two_sequences();
/// Writes the last three of them, in this order. The decoder reads the tokens behind `start`, which is padding as well.
/// It is to give the tokens.
void write_targets(const std::vector<std::int32_t>& tokens, std::int64_t length, std::int32_t start,
                   std::span<void* const> destinations);

/// The size of the dimension that masks index.
inline const strata::DimSizes kMaskSizes{{"mask_value", 2}};
/// The sizes of a dataset with masks: kMaskSizes, and those of its sequences.
[[nodiscard]] inline strata::DimSizes with_mask_sizes(strata::DimSizes sequences) {
  sequences.insert(kMaskSizes.begin(), kMaskSizes.end());
  return sequences;
}

/// The factory of a dataset whose samples have masks. `Product::schema()` lists its options.
template <class Product>
class MaskingFactory : public strata::DatasetFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }
  [[nodiscard]] strata::DimSizes sizes(const strata::Options& /*options*/) const override { return kMaskSizes; }
  [[nodiscard]] std::unique_ptr<strata::Dataset> open(const strata::Options& options,
                                                      const strata::DatasetRequest& request) const override {
    return std::make_unique<Product>(options, request);
  }

 private:
  strata::OptionSchema schema_ = Product::schema();
};

/// The factory of a dataset for an encoder and a decoder.
template <class Product>
class TwoSequenceFactory final : public MaskingFactory<Product> {
 public:
  [[nodiscard]] std::vector<strata::DatasetInput> inputs(const strata::Options& /*options*/) const override {
    return two_sequences();
  }
  [[nodiscard]] std::string unit(const strata::Options& /*options*/) const override { return "token"; }
};

}  // namespace datasets
