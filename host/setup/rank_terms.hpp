#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "setup/agreement.hpp"

namespace strata::host {

struct Compiled;
struct RunSetup;
class DataSource;

/// What all ranks of a run must have alike: keys, such as "optimizer.lr", and their values as text.
using RankTerms = std::vector<std::pair<std::string, std::string>>;

/// The configuration with all options, except for those that may differ (OptionSpecification::may_differ), the plugins
/// with their versions and builds, and the properties of this program and its machine on which results depend.
[[nodiscard]] RankTerms setup_terms(const RunSetup& setup);
/// The content of the data, whatever its path is.
[[nodiscard]] RankTerms data_terms(const DataSource& source);
/// A digest of the programs of all ranks. `name`: says which program it is.
[[nodiscard]] std::pair<std::string, std::string> program_term(const std::string& name, const Compiled& compiled);

/// Values beside the first one that find_disagreement() lets an Agreement reduce at once.
inline constexpr std::int64_t kAgreedDigestValues = 8;

/// Compares the terms of all ranks: first a digest, and the terms themselves if it differs. Collective. \return the
/// same text on all ranks, which names the first rank that differs from rank 0, the keys and both values. Empty if all
/// are equal.
[[nodiscard]] std::optional<std::string> find_disagreement(Agreement& agreement, const Communicator& communicator,
                                                           const RankTerms& terms);

}  // namespace strata::host
