#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "files/json_value.hpp"

namespace strata::host {

/// The tokens that a tokenizer adds before and after each document.
struct FrameTokens {
  std::vector<std::int32_t> first;
  std::vector<std::int32_t> last;
};

/// Reads `post_processor` of a tokenizer.json.
[[nodiscard]] FrameTokens read_frame_tokens(const std::optional<JsonValue>& value);

}  // namespace strata::host
