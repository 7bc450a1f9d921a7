#include "token_files.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "shared/data_option.hpp"
#include "strata/error.hpp"
#include "token_file.hpp"

namespace datasets {

using namespace strata;

std::vector<OptionSpecification> token_file_options() {
  const OptionValue no_words = std::vector<std::string>{};
  OptionSpecification weights =
      data_option("weights", OptionType::numbers, std::vector<double>{},
                  "Shares of the samples that the files of `paths` give. Empty: every sample once per epoch.",
                  OptionRole::data_weights);
  weights.minimum = 0;
  return {
      data_option("path", OptionType::word, std::string(),
                  "File with the tokens: raw, with the header of llm.c, or the .idx file of Megatron-LM, whose .bin "
                  "file lies beside it.",
                  OptionRole::training_data),
      data_option("paths", OptionType::words, no_words, "Several such files, instead of `path`.",
                  OptionRole::training_data),
      weights,
      data_option("validation_paths", OptionType::words, no_words,
                  "Files that are kept for evaluation. Empty: a share of each file, as `validation` says.",
                  OptionRole::validation_data),
      validation_option(),
      token_type_option(),
      option::word("documents", "none",
                   "How documents are found: by the token that ends each (`document_end`), or by the table of an "
                   ".idx file. Then the data also has the inputs documents and positions [batch seq].",
                   {"none", "token", "index"}),
      option::integer("document_end", -1, -1, static_cast<double>(std::numeric_limits<std::int32_t>::max()),
                      "The last token of every document, such as 50256 for GPT-2's <|endoftext|>."),
      tokenizer_option(),
      option::boolean("cross_document_targets", true,
                      "If false, the last token of a document has no target, so the loss leaves it out."),
  };
}

Documents documents_of(const Options& options) {
  const std::string& word = options.word("documents");
  if (word == "none") {
    if (options.boolean("cross_document_targets")) return Documents::none;
    throw OptionError("cross_document_targets",
                      "found false with documents = \"none\"; accepted: true, or documents that are told apart");
  }
  if (word == "index") return Documents::source;
  if (options.integer("document_end") < 0) {
    throw OptionError("document_end", "found -1; accepted with documents = \"token\": a token of at least 0");
  }
  return Documents::token;
}

namespace {

/// Tokens of each file that are compared with the model's vocabulary before the run. Others are compared when they are
/// read.
constexpr std::int64_t kCheckedTokens = std::int64_t{64} << 20;

/// Files that stay open, and their splits.
class TokenFiles {
 public:
  TokenFiles(const Options& options, const DatasetRequest& request)
      : options_(options), request_(request), context_(context_of(request)), documents_(documents_of(options)) {}

  TokenData open() {
    open_training();
    if (const auto& paths = options_.words("validation_paths"); !paths.empty()) open_validation(paths);
    return {.sources = sources_,
            .windows = TokenWindows(splits_, context_, checked_weights()),
            .context = context_,
            .fingerprint = strata::fingerprint(files_),
            .description = description(),
            .vocabulary = {.kind = Vocabulary::Kind::tokens},
            .vocab = {},
            .documents = documents_,
            .document_end = static_cast<std::int32_t>(options_.integer("document_end")),
            .cross_document_targets = options_.boolean("cross_document_targets")};
  }

 private:
  void open_training() {
    const std::string& path = options_.word("path");
    const std::vector<std::string>& paths = options_.words("paths");
    if (path.empty() == paths.empty()) {
      throw OptionError("path", std::string(path.empty() ? "missing" : "found beside data.paths") +
                                    "; accepted: path, or else paths");
    }
    const bool has_own = !options_.words("validation_paths").empty();
    named_ = path.empty() ? "paths" : "path";
    for (const std::string& each : path.empty() ? paths : std::vector<std::string>{path}) {
      at_option(named_, [&] {
        const std::int64_t tokens = add(each);
        const TokenSplit split = split_tokens(tokens, has_own ? 0 : options_.number("validation"));
        require_window(each, tokens, "training", split.training, context_);
        if (request_.validates && !has_own) {
          require_validation_share(each, tokens, split.validation, context_, options_.number("validation"));
        }
        splits_.push_back(split);
      });
    }
  }

  void open_validation(const std::vector<std::string>& paths) {
    for (const std::string& each : paths) {
      at_option("validation_paths", [&] {
        const std::int64_t tokens = add(each);
        require_window(each, tokens, "validation", {0, tokens}, context_);
        splits_.push_back({{}, {0, tokens}});
      });
    }
  }

  /// Opens a file. \return the number of its tokens.
  std::int64_t add(const std::string& path) {
    const auto tokens = open_tokens(path, options_, request_, files_);
    if (documents_ == Documents::source && !is_indexed(path)) {
      throw OptionError("documents", "found \"index\" with '" + path + "'; accepted: an .idx file of Megatron-LM");
    }
    require_known_tokens(*tokens);
    sources_.push_back(tokens);
    return tokens->size();
  }

  /// Reads blocks that are spread over the whole file, from its first token to its last one. Reading throws if a token
  /// is outside of the vocabulary. The blocks of a file of up to kCheckedTokens have all its tokens.
  static void require_known_tokens(const TokenSource& source) {
    constexpr std::int64_t kBlock = 1 << 16;
    std::vector<std::int32_t> block(kBlock);
    const std::int64_t last = std::max<std::int64_t>(0, source.size() - kBlock);
    const std::int64_t steps = std::min(kCheckedTokens / kBlock - 1, (last + kBlock - 1) / kBlock);
    for (std::int64_t i = 0; i <= steps; ++i) {
      const std::int64_t begin = steps == 0 ? 0 : last / steps * i + last % steps * i / steps;
      source.read(begin, std::min(kBlock, source.size() - begin), block.data());
    }
  }

  /// One weight for each source; those of validation give no sample. Empty without weights.
  [[nodiscard]] std::vector<double> checked_weights() const {
    std::vector<double> weights = options_.numbers("weights");
    if (weights.empty()) return weights;
    const std::size_t count = std::max<std::size_t>(1, options_.words("paths").size());
    if (weights.size() != count || std::accumulate(weights.begin(), weights.end(), 0.0) <= 0) {
      throw OptionError("weights", "found " + std::to_string(weights.size()) + " weights; accepted: " +
                                       std::to_string(count) + ", one for each file, not all of them 0");
    }
    weights.resize(splits_.size(), 0.0);
    return weights;
  }

  [[nodiscard]] std::string description() const {
    std::int64_t tokens = 0;
    for (const auto& source : sources_) tokens += source->size();
    const std::string first = "'" + sources_.front()->name() + "'";
    const std::size_t more = sources_.size() - 1;
    return std::to_string(tokens) + " tokens of " + first +
           (more == 0 ? "" : " and " + std::to_string(more) + " more file(s)");
  }

  const Options& options_;
  const DatasetRequest& request_;
  std::int64_t context_;
  Documents documents_;
  std::string named_;
  std::vector<DataFile> files_;
  std::vector<std::shared_ptr<const TokenSource>> sources_;
  std::vector<TokenSplit> splits_;
};

}  // namespace

TokenData open_token_files(const Options& options, const DatasetRequest& request) {
  // The data refers to nothing of the TokenFiles: its sources own the files that they read.
  return TokenFiles(options, request).open();
}

}  // namespace datasets
