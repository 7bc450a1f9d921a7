#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/token_windows.hpp"
#include "strata/dataset.hpp"
#include "strata/error.hpp"

namespace datasets {

/// A stream of tokens, by position. Implementations are thread-safe.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  /// The file, for messages.
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Reads the tokens [begin, begin + count). \throws strata::RuntimeError with file and offset.
  virtual void read(std::int64_t begin, std::int64_t count, std::int32_t* destination) const = 0;
  /// The positions in (begin, begin + count) at which a document starts, ascending. Default: documents are unknown.
  [[nodiscard]] virtual std::vector<std::int64_t> document_starts(std::int64_t /*begin*/,
                                                                  std::int64_t /*count*/) const {
    return {};
  }
};

/// The option `validation` of datasets of tokens.
[[nodiscard]] strata::OptionSpecification validation_option();

/// The model's size of "seq". \throws ConfigurationError if the model fixes none.
[[nodiscard]] std::int64_t context_of(const strata::DatasetRequest& request);

/// Checks that a part of a source, "training" or "validation", holds a window and the target of its last token. \throws
/// ConfigurationError that names the file.
void require_window(const std::string& file, std::int64_t tokens, const std::string& part, const TokenRange& range,
                    std::int64_t context);

/// Checks the share of a source that the option `validation` keeps for evaluation. \throws OptionError of that option.
void require_validation_share(const std::string& file, std::int64_t tokens, const TokenRange& range,
                              std::int64_t context, double share);

/// Runs `call`. The errors of files get the name of the option.
template <class Call>
void at_option(const std::string& option, const Call& call) {
  try {
    call();
  } catch (const strata::OptionError&) {
    throw;
  } catch (const strata::Error& error) {
    throw strata::OptionError(option, error.what());
  }
}

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
