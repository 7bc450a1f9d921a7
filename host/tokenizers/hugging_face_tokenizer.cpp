#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "tokenizers/flat_table.hpp"
#include "tokenizers/text_steps.hpp"
#include "tokenizers/text_tokenizer.hpp"
#include "tokenizers/token_model.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

std::unique_ptr<const TokenModel> read_token_model(const JsonValue& value, bool reads_bytes) {
  // Files of early versions have no type.
  std::string type = value.string_or("type", "");
  if (type.empty()) type = value.find("merges") ? "BPE" : "Unigram";
  if (type == "BPE") return read_bpe_model(value, reads_bytes);
  if (type == "Unigram") return read_unigram_model(value, reads_bytes);
  if (type == "WordPiece" && !reads_bytes) return read_word_piece_model(value);
  value.at("type").refuse(reads_bytes ? "BPE, Unigram" : "BPE, Unigram, WordPiece");
}

/// Reads a template such as [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}].
FrameTokens read_template(const JsonValue& value) {
  const JsonValue pieces = value.at("single");
  FrameTokens frame;
  bool has_text = false;
  for (const JsonValue& piece : pieces.elements()) {
    if (piece.find("Sequence")) {
      if (has_text) piece.fail("found the text a second time; accepted: once");
      has_text = true;
      continue;
    }
    const JsonValue name = piece.at("SpecialToken").at("id");
    const JsonValue numbers = value.at("special_tokens").at(name.string()).at("ids");
    std::vector<std::int32_t>& tokens = has_text ? frame.last : frame.first;
    for (const JsonValue& number : numbers.elements()) tokens.push_back(number.token());
  }
  if (!has_text) pieces.fail("accepted: pieces of which one is the Sequence A");
  return frame;
}

/// The token of ["<s>", 0].
std::int32_t token_of_pair(const JsonValue& pair) {
  if (pair.size() != 2) pair.refuse("[\"TEXT\", NUMBER]");
  return pair.element(1).token();
}

FrameTokens read_step_tokens(const JsonValue& value) {
  const JsonValue type = value.at("type");
  const std::string name = type.string();
  if (name == "ByteLevel") return {};
  if (name == "TemplateProcessing") return read_template(value);
  if (name == "BertProcessing" || name == "RobertaProcessing") {
    return {{token_of_pair(value.at("cls"))}, {token_of_pair(value.at("sep"))}};
  }
  type.refuse("ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing, Sequence");
}

/// Reads `post_processor`.
FrameTokens read_frame_tokens(const std::optional<JsonValue>& value) {
  FrameTokens frame;
  for (const JsonValue& each : steps_of(value, "processors")) {
    const FrameTokens step = read_step_tokens(each);
    frame.first.insert(frame.first.begin(), step.first.begin(), step.first.end());
    frame.last.insert(frame.last.end(), step.last.begin(), step.last.end());
  }
  return frame;
}

/// The parts of a tokenizer.json, in the order in which a text passes through them.
struct Pipeline {
  explicit Pipeline(const JsonValue& root)
      : normalizer(root.find("normalizer")),
        pre_tokenizer(root.find("pre_tokenizer")),
        model(read_token_model(root.at("model"), pre_tokenizer.reads_bytes)),
        added(root.find("added_tokens"), model->vocabulary(), normalizer),
        frame(read_frame_tokens(root.find("post_processor"))),
        decode(read_decoder(root.find("decoder"))) {}

  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<const TokenModel> model;
  AddedTokens added;
  FrameTokens frame;
  TokenDecoder decode;
};

/// Enough of a text to tell whether a normalizer removes its first character.
std::string beginning_of(const std::string& text) {
  constexpr std::size_t kEnough = 1024;
  std::size_t end = std::min(text.size(), kEnough);
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
  return text.substr(0, end);
}

constexpr std::size_t kMostWords = std::size_t{1} << 15U;
/// Longer words are seldom seen twice.
constexpr std::size_t kLongestWord = 64;

/// Keeps the tokens of words. A full cache forgets all of them. Not thread-safe: each thread has one.
class WordCache {
 public:
  /// The tokens of a word, or null if the cache has not got it.
  [[nodiscard]] std::optional<std::span<const std::int32_t>> find(std::string_view word) const {
    if (word.size() > kLongestWord) return std::nullopt;
    const Entry entry = words_.find(key_of(word));
    // An entry that was never set has no text.
    if (entry.text_bytes != word.size() || texts_.compare(entry.text, entry.text_bytes, word) != 0) return std::nullopt;
    return std::span(tokens_).subspan(entry.tokens, entry.token_count);
  }

  /// Adds a word that the cache has not got. Of two words with one hash, it keeps the later one.
  void add(std::string_view word, std::span<const std::int32_t> tokens) {
    if (word.empty() || word.size() > kLongestWord || tokens.size() > UINT16_MAX) return;
    if (count_ == kMostWords) *this = WordCache();
    words_.at(key_of(word)) = {static_cast<std::uint32_t>(texts_.size()), static_cast<std::uint32_t>(tokens_.size()),
                               static_cast<std::uint16_t>(word.size()), static_cast<std::uint16_t>(tokens.size())};
    texts_ += word;
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    ++count_;
  }

 private:
  /// Where a word and its tokens lie.
  struct Entry {
    std::uint32_t text = 0;
    std::uint32_t tokens = 0;
    std::uint16_t text_bytes = 0;
    std::uint16_t token_count = 0;
  };

  /// The table has no key ~0.
  static std::uint64_t key_of(std::string_view word) { return XXH3_64bits(word.data(), word.size()) >> 1U; }

  /// By hash.
  FlatTable<Entry> words_{kMostWords};
  std::size_t count_ = 0;
  std::string texts_;
  std::vector<std::int32_t> tokens_;
};

class HuggingFaceEncoder : public TextEncoder {
 public:
  HuggingFaceEncoder(const Pipeline& pipeline, SpecialInText special)
      : pipeline_(pipeline),
        skips_special_(special == SpecialInText::text),
        cuts_at_marks_(pipeline.pre_tokenizer.steps.empty() && !pipeline.pre_tokenizer.reads_bytes &&
                       pipeline.model->respects_word_marks()) {}

  bool append(std::string_view text, std::vector<std::int32_t>& tokens) override {
    require_utf8(text);
    parts_.clear();
    has_special_ = pipeline_.added.cut(text, false, skips_special_, parts_);
    for (const TextPart& part : parts_) {
      if (part.token >= 0) {
        tokens.push_back(part.token);
      } else {
        append_normalized(std::string(text.substr(part.begin, part.end - part.begin)), part.begin == 0, tokens);
      }
    }
    return has_special_;
  }

 private:
  void append_normalized(std::string text, bool is_first, std::vector<std::int32_t>& tokens) {
    is_first = is_first && pipeline_.pre_tokenizer.treats_first &&
               pipeline_.normalizer.keeps_beginning(beginning_of(text), cut_.memory);
    text = pipeline_.normalizer.apply(std::move(text), cut_.memory);
    normalized_parts_.clear();
    if (pipeline_.added.cut(text, true, skips_special_, normalized_parts_)) has_special_ = true;
    for (const TextPart& part : normalized_parts_) {
      if (part.token >= 0) {
        tokens.push_back(part.token);
        continue;
      }
      cut_.text.assign(text, part.begin, part.end - part.begin);
      cut_.words.assign(1, {0, cut_.text.size(), is_first && part.begin == 0});
      for (const auto& step : pipeline_.pre_tokenizer.steps) step(cut_);
      for (const WordRange& word : cut_.words) append_word(word, tokens);
    }
  }

  void append_word(const WordRange& range, std::vector<std::int32_t>& tokens) {
    std::string_view word = std::string_view(cut_.text).substr(range.begin, range.end - range.begin);
    while (cuts_at_marks_ && !word.empty()) {
      // The marks before the word belong to it.
      std::size_t end = 0;
      while (word.substr(end, kWordMark.size()) == kWordMark) end += kWordMark.size();
      end = std::min(word.find(kWordMark, end), word.size());
      append_tokens(word.substr(0, end), tokens);
      word.remove_prefix(end);
    }
    if (!word.empty()) append_tokens(word, tokens);
  }

  void append_tokens(std::string_view word, std::vector<std::int32_t>& tokens) {
    if (const auto known = cache_.find(word)) {
      tokens.insert(tokens.end(), known->begin(), known->end());
      return;
    }
    const std::size_t first = tokens.size();
    pipeline_.model->split(word, memory_, tokens);
    cache_.add(word, std::span(tokens).subspan(first));
  }

  const Pipeline& pipeline_;
  bool skips_special_;
  /// The document so far has a special token.
  bool has_special_ = false;
  bool cuts_at_marks_;
  std::vector<TextPart> parts_;
  std::vector<TextPart> normalized_parts_;
  WordCut cut_;
  ModelMemory memory_;
  WordCache cache_;
};

class HuggingFaceTokenizer : public TextTokenizer {
 public:
  HuggingFaceTokenizer(std::filesystem::path file, const JsonValue& root) : file_(std::move(file)), pipeline_(root) {}

  std::unique_ptr<TextEncoder> make_encoder(SpecialInText special) const override {
    return std::make_unique<HuggingFaceEncoder>(pipeline_, special);
  }

  std::string decode_text(std::span<const std::int32_t> tokens, bool special) const override {
    const std::vector<std::string>& texts = pipeline_.model->vocabulary().texts();
    std::vector<std::string> found;
    for (const std::int32_t token : tokens) {
      const AddedToken* added = pipeline_.added.find(token);
      if (added != nullptr) {
        if (special || !added->special) found.push_back(added->text);
      } else if (token >= 0 && static_cast<std::size_t>(token) < texts.size()) {
        if (!texts[static_cast<std::size_t>(token)].empty()) found.push_back(texts[static_cast<std::size_t>(token)]);
      }
    }
    return pipeline_.decode(std::move(found));
  }

  std::int64_t size() const override {
    return std::max<std::int64_t>(std::ssize(pipeline_.model->vocabulary().texts()), pipeline_.added.end());
  }
  FrameTokens frame() const override { return pipeline_.frame; }

  std::optional<std::int32_t> end_of_text() const override {
    const auto named = named_end_of_text(file_);
    if (!named) return std::nullopt;
    return named->number ? named->number : token_of(named->text);
  }

  std::optional<std::int32_t> token_of(std::string_view text) const override {
    std::int32_t token = pipeline_.added.token_of(text);
    if (token < 0) token = pipeline_.model->vocabulary().find(text);
    return token < 0 ? std::nullopt : std::optional(token);
  }

  std::vector<std::filesystem::path> files() const override { return {file_}; }

 private:
  std::filesystem::path file_;
  Pipeline pipeline_;
};

}  // namespace

std::unique_ptr<const TextTokenizer> load_hugging_face_tokenizer(const std::filesystem::path& file) {
  const nlohmann::json content = read_json_file(file);
  const JsonValue root(content, file);
  if (!content.is_object()) root.refuse("an object with the keys of a tokenizer");
  if (!content.contains("model")) {
    root.fail(content.contains("chat_template")
                  ? "found the companion of a tokenizer, with a chat template, which Strata does not apply; accepted: "
                    "tokenizer.json"
                  : "has no key 'model'; accepted: a tokenizer.json of Hugging Face");
  }
  return std::make_unique<HuggingFaceTokenizer>(file, root);
}

}  // namespace strata::host
