#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strata/export.hpp"
#include "strata/options.hpp"
#include "strata/strategy.hpp"

namespace strata {

/// Low-rank adapters of several parameters, as PEFT publishes them. Each parameter W computes as W + scale · B A.
struct PeftAdapters {
  std::vector<std::string> parameters;
  std::int64_t rank = 1;
  double scale = 1;
  /// Probability of dropout on the input of A in training.
  double dropout = 0;
};

/// The factory of a strategy that adds low-rank terms to parameters (LowRankTerm). The host knows no such strategy by
/// name: if Hugging Face adapters are imported, it asks every strategy that is installed.
class STRATA_API AdapterFactory : public StrategyFactory {
 public:
  ~AdapterFactory() override;
  /// The options with which the strategy adds terms to these parameters and to no others; options that are left out
  /// keep their defaults. A model whose adapters have several ranks or scales gets one such strategy for each. \throws
  /// OptionError if the strategy cannot have such adapters.
  [[nodiscard]] virtual std::map<std::string, OptionValue> adapter_options(const PeftAdapters& adapters) const = 0;
};

}  // namespace strata
