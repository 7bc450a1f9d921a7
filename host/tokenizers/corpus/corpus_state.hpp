#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "tokenizers/corpus/corpus_reader.hpp"

namespace strata::host {

/// How far a run has come. OUTPUT.progress has it, so that the same job continues.
struct CorpusState {
  CorpusPosition position;
  std::int64_t documents = 0;
  /// Those that contain the text of a special token.
  std::int64_t special_documents = 0;
  std::int64_t tokens = 0;
};

[[nodiscard]] std::filesystem::path state_path(const std::filesystem::path& output);

/// The state that an earlier run has left. Empty if there is none. \param identity What the job depends on: the next
/// run must have the same. \throws ConfigurationError that names what differs.
[[nodiscard]] std::optional<CorpusState> read_state(const std::filesystem::path& output,
                                                    const nlohmann::json& identity);

void write_state(const std::filesystem::path& output, const nlohmann::json& identity, const CorpusState& state);

}  // namespace strata::host
