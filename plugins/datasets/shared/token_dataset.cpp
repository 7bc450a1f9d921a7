#include "shared/token_dataset.hpp"

#include <algorithm>
#include <numeric>

#include "strata/error.hpp"

namespace datasets {

using namespace strata;

OptionSpecification validation_option() {
  return option::with_role(
      OptionRole::validation_share,
      option::number("validation", 0.1, 0, 0.9,
                     "Share of the tokens, taken from the end of the data, that is kept for evaluation."));
}

std::int64_t context_of(const DatasetRequest& request) {
  const auto found = request.sizes.find("seq");
  if (found != request.sizes.end()) return found->second;
  throw ConfigurationError("the model fixes no size of 'seq', the tokens of a sample; accepted: a model that does");
}

void require_window(const std::string& file, std::int64_t tokens, const std::string& part, const TokenRange& range,
                    std::int64_t context) {
  if (range.size > context) return;
  throw ConfigurationError("'" + file + "': the " + part + " part has " + std::to_string(range.size) +
                           " of the file's " + std::to_string(tokens) + " tokens; a context of " +
                           std::to_string(context) + " needs at least " + std::to_string(context + 1));
}

void require_validation_share(const std::string& file, std::int64_t tokens, const TokenRange& range,
                              std::int64_t context, double share) {
  try {
    require_window(file, tokens, "validation", range, context);
  } catch (const ConfigurationError& error) {
    throw OptionError("validation", "found " + to_string(OptionValue(share)) + ": " + error.what() +
                                        "; accepted: a larger share, or run.eval_every = 0");
  }
}

namespace {

/// The order of the inputs.
enum Input : std::size_t { kTokens, kTargets, kPositions, kDocuments, kDocumentPositions };

std::int32_t* destination_of(std::span<void* const> destinations, std::size_t input) {
  return input < destinations.size() ? static_cast<std::int32_t*>(destinations[input]) : nullptr;
}

}  // namespace

std::vector<DatasetInput> token_inputs(bool documents) {
  std::vector<DatasetInput> inputs{
      {.name = "tokens", .dims = {"seq"}, .indexes = "vocab"},
      {.name = "targets", .dims = {"seq"}, .indexes = "vocab", .is_target = true},
      {.name = "positions", .dims = {"seq"}, .indexes = "seq", .per_sample = false},
  };
  if (!documents) return inputs;
  inputs.push_back({.name = "documents", .dims = {"seq"}, .indexes = "seq"});
  inputs.push_back({.name = "positions", .dims = {"seq"}, .indexes = "seq"});
  return inputs;
}

DimSizes TokenDataset::sizes() const {
  DimSizes sizes{{"seq", data_.context}};
  if (data_.vocab) sizes["vocab"] = *data_.vocab;
  return sizes;
}

void TokenDataset::read(const SampleKey& key, std::span<void* const> destinations) const {
  const Window window = data_.windows.find(key);
  std::int32_t* tokens = destination_of(destinations, kTokens);
  std::int32_t* targets = destination_of(destinations, kTargets);
  if (tokens != nullptr) data_.sources[window.source]->read(window.begin, data_.context, tokens);
  if (targets != nullptr) read_targets(window, tokens, targets);
  std::int32_t* documents = destination_of(destinations, kDocuments);
  std::int32_t* positions = destination_of(destinations, kDocumentPositions);
  const bool leaves_out = targets != nullptr && !data_.cross_document_targets;
  if (documents == nullptr && positions == nullptr && !leaves_out) return;
  const std::vector<std::int64_t> starts = document_starts(window, tokens);
  if (leaves_out) {
    for (const std::int64_t start : starts) targets[start - 1] = -1;
  }
  write_documents(starts, documents, positions);
}

/// `tokens`: those of the window, or null if they have not been read.
void TokenDataset::read_targets(const Window& window, const std::int32_t* tokens, std::int32_t* targets) const {
  const TokenSource& source = *data_.sources[window.source];
  if (tokens != nullptr) {
    std::copy_n(tokens + 1, data_.context - 1, targets);
    source.read(window.begin + data_.context, 1, targets + data_.context - 1);
  } else {
    source.read(window.begin + 1, data_.context, targets);
  }
  std::fill_n(targets, window.repeated, -1);
}

void TokenDataset::read_common(std::span<void* const> destinations) const {
  std::int32_t* positions = destination_of(destinations, kPositions);
  if (positions != nullptr) std::iota(positions, positions + data_.context, 0);
}

void TokenDataset::write_documents(std::vector<std::int64_t> starts, std::int32_t* documents,
                                   std::int32_t* positions) const {
  if (starts.empty() || starts.back() != data_.context) starts.push_back(data_.context);
  std::int64_t begin = 0;
  for (std::size_t number = 0; number < starts.size(); ++number) {
    if (documents != nullptr)
      std::fill(documents + begin, documents + starts[number], static_cast<std::int32_t>(number));
    if (positions != nullptr) std::iota(positions + begin, positions + starts[number], 0);
    begin = starts[number];
  }
}

/// The indices from 1 up to the context at which a document starts. The token there is the target of the one before.
/// `tokens`: those of the window, or null if they have not been read.
std::vector<std::int64_t> TokenDataset::document_starts(const Window& window, const std::int32_t* tokens) const {
  const TokenSource& source = *data_.sources[window.source];
  std::vector<std::int64_t> starts;
  if (data_.documents == Documents::source) {
    starts = source.document_starts(window.begin, data_.context + 1);
    for (std::int64_t& start : starts) start -= window.begin;
    return starts;
  }
  std::vector<std::int32_t> read;
  if (tokens == nullptr) {
    read.resize(static_cast<std::size_t>(data_.context));
    source.read(window.begin, data_.context, read.data());
    tokens = read.data();
  }
  for (std::int64_t i = 0; i < data_.context; ++i) {
    if (tokens[i] == data_.document_end) starts.push_back(i + 1);
  }
  return starts;
}

}  // namespace datasets
