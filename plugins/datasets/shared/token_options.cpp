#include "shared/token_options.hpp"

#include "strata/error.hpp"

namespace datasets {

using namespace strata;

OptionSpecification validation_option() {
  OptionSpecification share = option::number(
      "validation", 0.1, 0, 0.9, "Share of the tokens, taken from the end of the data, that is kept for evaluation.");
  share.role = OptionRole::validation_share;
  return share;
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

}  // namespace datasets
