#pragma once

namespace strata::host {

/// \file
/// Hugging Face's tokenizers normalise and classify by older versions of Unicode than today's, and tokens must be
/// theirs.

/// True for a code point that their normal forms leave as it is, although today's change, reorder or compose it.
[[nodiscard]] bool has_no_normal_form_yet(char32_t code_point);

/// True for punctuation there. `is_now`: whether it is today.
[[nodiscard]] bool was_punctuation(char32_t code_point, bool is_now);
/// True for a mark there. `is_now`: whether it is today.
[[nodiscard]] bool was_mark(char32_t code_point, bool is_now);

}  // namespace strata::host
