#include "tokenizers/token_model.hpp"

namespace strata::host {

bool has_inner_mark(std::string_view text) {
  for (std::size_t at = text.find(kWordMark); at != std::string_view::npos; at = text.find(kWordMark, at + 1)) {
    if (at != 0 && (at < kWordMark.size() || text.substr(at - kWordMark.size(), kWordMark.size()) != kWordMark)) {
      return true;
    }
  }
  return false;
}

std::unique_ptr<const TokenModel> read_token_model(const JsonValue& value, bool reads_bytes) {
  // Files of early versions have no type.
  std::string type = value.string_or("type", "");
  if (type.empty()) type = value.find("merges") ? "BPE" : "Unigram";
  if (type == "BPE") return read_bpe_model(value, reads_bytes);
  if (type == "Unigram") return read_unigram_model(value, reads_bytes);
  value.at("type").refuse("BPE, Unigram");
}

}  // namespace strata::host
