#pragma once

#include <string>

#include "shared/token_windows.hpp"
#include "strata/dataset.hpp"
#include "strata/error.hpp"

namespace datasets {

/// The option `validation` of datasets of tokens.
[[nodiscard]] strata::OptionSpecification validation_option();

/// The model's size of "seq". \throws ConfigurationError if the model fixes none.
[[nodiscard]] std::int64_t context_of(const strata::DatasetRequest& request);

/// Checks that a part of a source, "training" or "validation", holds a window and the target of its last token. \throws
/// ConfigurationError that names the file.
void require_window(const std::string& file, std::int64_t tokens, const std::string& part, const TokenRange& range,
                    std::int64_t context);

/// Checks the share of a source that the option `validation` keeps for evaluation. \throws OptionError of that option.
void require_validation_share(const std::string& file, std::int64_t tokens, const TokenRange& range,
                              std::int64_t context, double share);

/// Runs `call`. The errors of files get the name of the option.
template <class Call>
void at_option(const std::string& option, const Call& call) {
  try {
    call();
  } catch (const strata::OptionError&) {
    throw;
  } catch (const strata::Error& error) {
    throw strata::OptionError(option, error.what());
  }
}

}  // namespace datasets
