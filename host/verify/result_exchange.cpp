#include <nlohmann/json.hpp>

#include "setup/agreement.hpp"
#include "strata/error.hpp"
#include "verify/stack_run.hpp"

namespace strata::host {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StackResult, losses, gradient_norms, evaluations, metrics, parameters, averages,
                                   planned_peak_bytes, arena_peak_bytes)

std::vector<StackResult> gather_results(Communicator& communicator, Device& device, const StackResult& own) {
  Agreement agreement(communicator, device);
  // Unlike JSON, CBOR keeps every bit of a number, and numbers that are not finite.
  std::string text;
  nlohmann::json::to_cbor(own, text);
  std::vector<StackResult> results;
  for (int rank = 0; rank < communicator.rank_count(); ++rank) {
    const std::string of_rank = agreement.text(rank == communicator.rank() ? text : "");
    const nlohmann::json value = nlohmann::json::from_cbor(of_rank, /*strict=*/true, /*allow_exceptions=*/false);
    if (!value.is_object()) throw RuntimeError("the results of another rank are cut off");
    results.push_back(value.get<StackResult>());
  }
  return results;
}

}  // namespace strata::host
