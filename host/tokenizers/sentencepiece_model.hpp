#pragma once

#include <string_view>

namespace strata::host {

/// Checks the parts of a serialized model that libsentencepiece uses without a check of its own, such as the offsets of
/// its normalizer's trie. \throws ConfigurationError, whose message has no file, if one is wrong.
void check_sentencepiece_model(std::string_view bytes);

}  // namespace strata::host
