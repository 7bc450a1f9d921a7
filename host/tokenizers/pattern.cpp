#include "tokenizers/pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <new>
#include <utility>

#include "strata/error.hpp"
#include "tokenizers/pattern_syntax.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

/// The steps of one match. The patterns of published tokenizers need a few for each code point.
constexpr std::uint32_t kMostSteps = 10'000'000;
constexpr std::uint32_t kMostHeapKibibytes = 64 * 1024;
/// A replaced text may grow, but a damaged file must not fill the memory.
constexpr std::size_t kMostGrowth = 64;
constexpr std::size_t kSmallText = std::size_t{1} << 20U;
constexpr std::size_t kLongestPattern = std::size_t{64} << 10U;
constexpr std::size_t kFirstStack = std::size_t{64} << 10U;
constexpr std::size_t kLargestStack = std::size_t{8} << 20U;

template <class T>
using Owner = std::unique_ptr<T, void (*)(T*)>;
using CompiledCode = Owner<pcre2_code>;
using MatchData = Owner<pcre2_match_data>;
using MatchContext = Owner<pcre2_match_context>;
using CompileContext = Owner<pcre2_compile_context>;
using JitStack = Owner<pcre2_jit_stack>;

template <class Pointer>
Pointer made(Pointer pointer) {
  if (!pointer) throw std::bad_alloc();
  return pointer;
}

std::string library_message(int code) {
  std::array<unsigned char, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct PatternMemory::State {
  MatchData data = made(MatchData(pcre2_match_data_create(1, nullptr), pcre2_match_data_free));
  MatchContext context = made(MatchContext(pcre2_match_context_create(nullptr), pcre2_match_context_free));
  JitStack stack = JitStack(pcre2_jit_stack_create(kFirstStack, kLargestStack, nullptr), pcre2_jit_stack_free);
};

PatternMemory::PatternMemory() : state_(std::make_unique<State>()) {
  pcre2_set_match_limit(state_->context.get(), kMostSteps);
  pcre2_set_heap_limit(state_->context.get(), kMostHeapKibibytes);
  if (state_->stack) pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
}

PatternMemory::~PatternMemory() = default;
PatternMemory::PatternMemory(PatternMemory&&) noexcept = default;

struct Pattern::Code {
  CompiledCode compiled;
};

Pattern::Pattern(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;

Pattern Pattern::expression(std::string_view syntax) {
  if (syntax.size() > kLongestPattern) {
    throw ConfigurationError("found a regular expression of " + std::to_string(syntax.size()) +
                             " bytes; accepted: up to " + std::to_string(kLongestPattern));
  }
  const std::string translated = pcre2_syntax(syntax);
  const CompileContext context =
      made(CompileContext(pcre2_compile_context_create(nullptr), pcre2_compile_context_free));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  int error = 0;
  std::size_t position = 0;
  CompiledCode compiled(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                                      &position, context.get()),
                        pcre2_code_free);
  if (!compiled) {
    throw ConfigurationError("found a regular expression that PCRE2 refuses: " + library_message(error) +
                             "; accepted: a valid one");
  }
  // If the machine has no just-in-time compiler, pcre2_match() interprets.
  (void)pcre2_jit_compile(compiled.get(), PCRE2_JIT_COMPLETE);
  return Pattern(std::make_unique<Code>(Code{std::move(compiled)}));
}

Pattern Pattern::literal(std::string text) {
  Pattern pattern(nullptr);
  pattern.literal_ = std::move(text);
  return pattern;
}

std::optional<TextRange> Pattern::find(std::string_view text, std::size_t from, PatternMemory& memory) const {
  if (!code_) {
    const std::size_t found = literal_.empty() ? std::string_view::npos : text.find(literal_, from);
    if (found == std::string_view::npos) return std::nullopt;
    return TextRange{found, found + literal_.size()};
  }
  const PatternMemory::State& state = *memory.state_;
  const int result = pcre2_match(code_->compiled.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                 PCRE2_NO_UTF_CHECK, state.data.get(), state.context.get());
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) {
    throw ConfigurationError("the tokenizer's regular expression fails at byte " + std::to_string(from) +
                             " of the text: " + library_message(result));
  }
  const std::size_t* range = pcre2_get_ovector_pointer(state.data.get());
  return TextRange{range[0], range[1]};
}

void Pattern::find_all(std::string_view text, PatternMemory& memory, std::vector<TextRange>& matches) const {
  matches.clear();
  std::size_t from = 0;
  std::optional<std::size_t> last_end;
  while (from <= text.size()) {
    const std::optional<TextRange> match = find(text, from, memory);
    if (!match) return;
    if (match->begin >= match->end && last_end == match->end) {
      // An empty match right behind the last one is none.
      from += from < text.size() ? code_point_bytes(text[from]) : 1;
      continue;
    }
    matches.push_back(*match);
    from = match->end;
    last_end = from;
  }
}

std::string Pattern::replace_all(std::string_view text, std::string_view content, PatternMemory& memory) const {
  std::vector<TextRange> matches;
  find_all(text, memory, matches);
  if (matches.size() * content.size() > kMostGrowth * text.size() + kSmallText) {
    throw ConfigurationError("the tokenizer replaces a text of " + std::to_string(text.size()) +
                             " bytes by more than " + std::to_string(kMostGrowth) + " times as many");
  }
  std::string result;
  std::size_t copied = 0;
  for (const TextRange& match : matches) {
    result.append(text, copied, match.begin - copied);
    result += content;
    copied = match.end;
  }
  return result.append(text, copied);
}

}  // namespace strata::host
