#pragma once

#include <vector>

#include "shared/token_dataset.hpp"
#include "strata/options.hpp"

namespace datasets {

/// The options of datasets that read files of tokens.
[[nodiscard]] std::vector<strata::OptionSpecification> token_file_options();

/// How the options say that documents are found. \throws strata::OptionError if options contradict each other.
[[nodiscard]] Documents documents_of(const strata::Options& options);

/// Opens the files that the options name. Windows have as many tokens as the request's size of "seq".
[[nodiscard]] TokenData open_token_files(const strata::Options& options, const strata::DatasetRequest& request);

}  // namespace datasets
