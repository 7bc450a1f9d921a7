#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shared/data_option.hpp"
#include "shared/token_dataset.hpp"
#include "strata/data_file.hpp"
#include "strata/error.hpp"
#include "strata/vocabulary.hpp"

namespace datasets {
namespace {

using namespace strata;

constexpr std::size_t kCodePoints = 0x110000;

std::string read_text(const DataFile& file) {
  std::string text(static_cast<std::size_t>(file.bytes()), '\0');
  file.read(0, file.bytes(), text.data());
  return text;
}

/// Tokens of `text`. `index`: the token of each code point.
template <class Token>
std::vector<Token> encode(const std::string& text, const std::vector<std::uint32_t>& index, std::size_t count) {
  std::vector<Token> tokens;
  tokens.reserve(count);
  for (std::size_t position = 0; position < text.size();) {
    tokens.push_back(static_cast<Token>(index[next_code_point(text, position)]));
  }
  return tokens;
}

/// The bytes of a file, read as they are needed.
class ByteSource final : public TokenSource {
 public:
  explicit ByteSource(std::shared_ptr<const DataFile> file) : file_(std::move(file)) {}

  [[nodiscard]] std::string name() const override { return file_->path().string(); }
  [[nodiscard]] std::int64_t size() const override { return file_->bytes(); }
  void read(std::int64_t begin, std::int64_t count, std::int32_t* destination) const override {
    // The bytes are read to the end of the destination and widened from its beginning, so no other memory is needed.
    auto* bytes = reinterpret_cast<unsigned char*>(destination) + 3 * count;
    file_->read(begin, count, bytes);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int32_t token = bytes[i];
      destination[i] = token;
    }
  }

 private:
  std::shared_ptr<const DataFile> file_;
};

/// The characters of a text, which is encoded once and kept in memory. A token is the index of its code point among
/// those that occur, in ascending order.
class CharacterSource final : public TokenSource {
 public:
  /// `known`: the characters that may occur, or null for those that do. \throws ConfigurationError with the byte offset
  /// if the file is not UTF-8 or has a character that is not known.
  explicit CharacterSource(const DataFile& file, const Vocabulary* known) : name_(file.path().string()) {
    const std::string text = read_text(file);
    std::vector<bool> accepted(kCodePoints, known == nullptr);
    std::vector<bool> seen(kCodePoints);
    if (known != nullptr) {
      for (const char32_t character : known->characters) accepted[character] = seen[character] = true;
    }
    std::size_t count = 0;
    try {
      for (std::size_t position = 0; position < text.size(); ++count) {
        const std::size_t begin = position;
        const char32_t character = next_code_point(text, position);
        if (!accepted[character]) {
          throw ConfigurationError("byte " + std::to_string(begin) + " begins '" +
                                   text.substr(begin, position - begin) +
                                   "', a character that the training text does not have");
        }
        seen[character] = true;
      }
    } catch (const ConfigurationError& error) {
      throw ConfigurationError("'" + name_ + "': " + error.what());
    }
    vocabulary_.kind = Vocabulary::Kind::characters;
    std::vector<std::uint32_t> index(kCodePoints);
    for (std::size_t code_point = 0; code_point < kCodePoints; ++code_point) {
      if (!seen[code_point]) continue;
      index[code_point] = static_cast<std::uint32_t>(vocabulary_.characters.size());
      vocabulary_.characters.push_back(static_cast<char32_t>(code_point));
    }
    if (vocabulary_.characters.size() <= 0x10000) {
      narrow_ = encode<std::uint16_t>(text, index, count);
    } else {
      wide_ = encode<std::uint32_t>(text, index, count);
    }
  }

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] std::int64_t size() const override {
    return static_cast<std::int64_t>(wide_.empty() ? narrow_.size() : wide_.size());
  }
  void read(std::int64_t begin, std::int64_t count, std::int32_t* destination) const override {
    if (wide_.empty()) {
      std::copy_n(narrow_.begin() + begin, count, destination);
    } else {
      std::copy_n(wide_.begin() + begin, count, destination);
    }
  }
  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  std::string name_;
  Vocabulary vocabulary_;
  /// One of the two is used, depending on the number of characters.
  std::vector<std::uint16_t> narrow_;
  std::vector<std::uint32_t> wide_;
};

/// The file of the training text, and that of the validation text if it has one of its own.
class OpenedText {
 public:
  OpenedText(const Options& options, const DatasetRequest& request)
      : uses_characters_(options.word("tokenizer") == "chars"), context_(context_of(request)) {
    const std::string& own = options.word("validation_path");
    at_option("path", [&] {
      const TokenSource& source = add(options.word("path"));
      const TokenSplit split = split_tokens(source.size(), own.empty() ? options.number("validation") : 0);
      require_window(source.name(), source.size(), "training", split.training, context_);
      if (request.validates && own.empty()) {
        require_validation_share(source.name(), source.size(), split.validation, context_,
                                 options.number("validation"));
      }
      splits_.push_back(split);
    });
    if (own.empty()) return;
    at_option("validation_path", [&] {
      const TokenSource& source = add(own);
      require_window(source.name(), source.size(), "validation", {0, source.size()}, context_);
      splits_.push_back({{}, {0, source.size()}});
    });
  }

  [[nodiscard]] TokenData data() const {
    std::string description = std::to_string(sources_[0]->size()) + " tokens of '" + sources_[0]->name() + "'";
    if (sources_.size() > 1) {
      description += " and " + std::to_string(sources_[1]->size()) + " of '" + sources_[1]->name() + "'";
    }
    return {.sources = sources_,
            .windows = TokenWindows(splits_, context_, {}),
            .context = context_,
            .fingerprint = fingerprint(files_),
            .description = description,
            .vocabulary = vocabulary_,
            .vocab = token_count(vocabulary_)};
  }

 private:
  const TokenSource& add(const std::string& path) {
    files_.emplace_back(path);
    if (uses_characters_) {
      const auto source =
          std::make_shared<const CharacterSource>(files_.back(), sources_.empty() ? nullptr : &vocabulary_);
      vocabulary_ = source->vocabulary();
      sources_.push_back(source);
    } else {
      sources_.push_back(std::make_shared<const ByteSource>(std::make_shared<const DataFile>(path)));
    }
    return *sources_.back();
  }

  bool uses_characters_;
  std::int64_t context_;
  std::vector<DataFile> files_;
  std::vector<std::shared_ptr<const TokenSource>> sources_;
  std::vector<TokenSplit> splits_;
  Vocabulary vocabulary_;
};

class TextFactory final : public DatasetFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::vector<DatasetInput> inputs(const Options& /*options*/) const override {
    return token_inputs(false);
  }
  [[nodiscard]] DimSizes sizes(const Options& options) const override {
    if (options.word("tokenizer") == "chars") return {};
    return {{"vocab", *token_count({})}};
  }
  [[nodiscard]] std::string unit(const Options& /*options*/) const override { return "token"; }

  [[nodiscard]] std::unique_ptr<Dataset> open(const Options& options, const DatasetRequest& request) const override {
    return std::make_unique<TokenDataset>(OpenedText(options, request).data());
  }

 private:
  OptionSchema schema_{
      data_option("path", OptionType::word, std::nullopt, "File with the text, relative to the current directory.",
                  OptionRole::training_data),
      data_option("validation_path", OptionType::word, std::string(),
                  "File with the text for evaluation. Empty: a share of `path`, as `validation` says.",
                  OptionRole::validation_data),
      option::word("tokenizer", "bytes", "What a token is: a byte, or one of the characters that occur in the text.",
                   {"bytes", "chars"}),
      validation_option(),
  };
};

}  // namespace
}  // namespace datasets

STRATA_PLUGIN(dataset, "text", "0.1.0", "Apache-2.0", "A text file as a stream of bytes or characters.",
              datasets::TextFactory);
