#include "tokenizers/corpus/corpus_state.hpp"

#include "files/file_io.hpp"
#include "files/json_text.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

using nlohmann::json;

constexpr std::size_t kLargestState = std::size_t{64} << 20U;

std::int64_t count_of(const json& state, const char* key) {
  const json& value = state.at(key);
  if (!value.is_number_unsigned()) throw ConfigurationError(std::string("key '") + key + "'");
  return value.get<std::int64_t>();
}

}  // namespace

std::filesystem::path state_path(const std::filesystem::path& output) { return output.string() + ".progress"; }

std::optional<CorpusState> read_state(const std::filesystem::path& output, const json& identity) {
  const std::filesystem::path path = state_path(output);
  if (!std::filesystem::exists(path)) return std::nullopt;
  const json file = json::parse(read_small_file(path, kLargestState), nullptr, false);
  const auto refuse = [&](const std::string& what) {
    throw ConfigurationError("'" + path.string() + "': " + what + "; --overwrite begins anew");
  };
  if (!file.is_object() || !file.contains("job") || !file["job"].is_object())
    refuse("found no state of an earlier run");
  // A run that ended before its first token may begin anew with anything.
  if (file.value("tokens", json()) == 0) return std::nullopt;
  for (const auto& [key, value] : identity.items()) {
    if (!file["job"].contains(key) || file["job"][key] != value) {
      refuse("the earlier run had another " + key + ", so it cannot continue");
    }
  }
  CorpusState state;
  try {
    state.position = {count_of(file, "input"), count_of(file, "byte"), count_of(file, "line")};
    state.documents = count_of(file, "documents");
    state.special_documents = count_of(file, "special_documents");
    state.tokens = count_of(file, "tokens");
  } catch (const std::exception&) {
    refuse("found no state of an earlier run");
  }
  return state;
}

void write_state(const std::filesystem::path& output, const json& identity, const CorpusState& state) {
  const json file = {{"job", identity},
                     {"input", state.position.input},
                     {"byte", state.position.byte},
                     {"line", state.position.line},
                     {"documents", state.documents},
                     {"special_documents", state.special_documents},
                     {"tokens", state.tokens}};
  replace_file(state_path(output), json_text(file));
}

}  // namespace strata::host
