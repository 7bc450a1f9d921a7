#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/token_source.hpp"
#include "shared/token_windows.hpp"
#include "strata/dataset.hpp"

namespace datasets {

/// How the documents within a window are found.
enum class Documents : std::uint8_t {
  none,
  token,  ///< a document ends with a certain token
  source  ///< TokenSource::document_starts()
};

/// What a TokenDataset is made of.
struct TokenData {
  std::vector<std::shared_ptr<const TokenSource>> sources;
  TokenWindows windows;
  std::int64_t context = 1;
  std::string fingerprint;
  std::string description;
  strata::Vocabulary vocabulary;
  /// Empty if only the model knows the number of tokens.
  std::optional<std::int64_t> vocab;
  Documents documents = Documents::none;
  /// The last token of a document.
  std::int32_t document_end = 0;
  /// False if a token whose next token is in another document has no target.
  bool cross_document_targets = true;
};

/// The inputs of token data: "tokens" and "targets" [batch seq] and "positions" [seq]. With documents also "documents"
/// [batch seq], the number of the document within the window, and "positions" [batch seq], which start anew in each
/// document.
[[nodiscard]] std::vector<strata::DatasetInput> token_inputs(bool documents);

/// Windows of tokens. The target of a token is the next token.
class TokenDataset final : public strata::Dataset {
 public:
  explicit TokenDataset(TokenData data) : data_(std::move(data)) {}

  [[nodiscard]] strata::DimSizes sizes() const override;
  [[nodiscard]] std::int64_t samples(strata::DataSplit split) const override { return data_.windows.samples(split); }
  void read(const strata::SampleKey& key, std::span<void* const> destinations) const override;
  void read_common(std::span<void* const> destinations) const override;
  [[nodiscard]] std::string fingerprint() const override { return data_.fingerprint; }
  [[nodiscard]] std::string description() const override { return data_.description; }
  [[nodiscard]] std::optional<strata::Vocabulary> vocabulary() const override { return data_.vocabulary; }

 private:
  void read_targets(const Window& window, const std::int32_t* tokens, std::int32_t* targets) const;
  void write_documents(std::vector<std::int64_t> starts, std::int32_t* documents, std::int32_t* positions) const;
  [[nodiscard]] std::vector<std::int64_t> document_starts(const Window& window, const std::int32_t* tokens) const;

  TokenData data_;
};

}  // namespace datasets
