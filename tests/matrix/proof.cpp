#include "matrix/proof.hpp"

#include "strata/error.hpp"

namespace strata::testing {

Proof Prover::prove(const std::string& toml, const std::string& name) {
  host::StackProof found;
  try {
    found = prover_.prove(host::parse_configuration(toml, name));
  } catch (const ConfigurationError& error) {
    found.verdict = host::StackVerdict::refused;
    found.message = error.what();
  }
  Proof proof{.findings = found.findings(),
              .amplified = found.faults.amplified,
              .ranks = found.ranks,
              .worst_difference = found.worst_difference,
              .programs = found.programs};
  if (found.verdict == host::StackVerdict::holds) proof.verdict = Verdict::holds;
  if (found.verdict == host::StackVerdict::refused) {
    proof.refusal = find_refusal(name, found.message);
    if (proof.refusal != nullptr) proof.verdict = Verdict::refused;
  }
  return proof;
}

}  // namespace strata::testing
