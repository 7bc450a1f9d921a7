#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tokenizers/text_tokenizer.hpp"

namespace strata::host {

/// The type of tokens in a file. `automatic`: uint16 if all numbers of the vocabulary fit.
enum class StoredType : std::uint8_t { automatic, uint16, uint32 };
/// `llmc` files begin with llm.c's header, which has their type and number of tokens; `raw` files have tokens only.
/// `automatic`: with the header, unless the inputs may have more tokens than it can count.
enum class StoredFormat : std::uint8_t { automatic, llmc, raw };

/// The work of `strata tokenize`.
struct CorpusJob {
  std::filesystem::path tokenizer;
  std::vector<std::filesystem::path> inputs;
  std::filesystem::path output;
  /// The key of the text in JSON lines. If it is set, all inputs are JSON lines. Otherwise, those are that end in
  /// .jsonl or .ndjson, and the key is "text".
  std::optional<std::string> field;
  StoredType type = StoredType::automatic;
  StoredFormat format = StoredFormat::automatic;
  /// The number or the text of the token that ends each document.
  std::optional<std::string> document_token;
  /// Ends each document with the tokenizer's end-of-text token.
  bool ends_documents = false;
  /// Adds the tokens that the tokenizer's post-processor adds.
  bool special_tokens = false;
  /// What special tokens within documents become.
  SpecialInText special = SpecialInText::token;
  /// 0: one a processor.
  int threads = 0;
  /// Begins anew, whatever an earlier run has left.
  bool overwrite = false;
  /// Seconds between two notes of how far the run has come.
  int state_seconds = 5;
};

struct CorpusProgress {
  std::int64_t bytes = 0;
  std::int64_t total_bytes = 0;
  std::int64_t documents = 0;
  /// Those that contain the text of a special token.
  std::int64_t special_documents = 0;
  std::int64_t tokens = 0;
};

struct CorpusResult {
  CorpusProgress progress;
  /// Bytes of the inputs that an earlier run had done.
  std::int64_t resumed_bytes = 0;
  StoredType type = StoredType::uint16;
  bool has_header = false;
  std::optional<std::int32_t> document_token;
};

/// Writes the tokens of the inputs to a file. Calls `report` now and then. An interrupted run leaves OUTPUT.partial and
/// OUTPUT.progress, with which the same job continues; one whose input is refused leaves neither. \throws
/// ConfigurationError if an input is wrong, or is not the one with which the earlier run began.
[[nodiscard]] CorpusResult tokenize_corpus(const CorpusJob& job,
                                           const std::function<void(const CorpusProgress&)>& report);

}  // namespace strata::host
