#include <cstring>

#include "conformance/checks.hpp"
#include "verify/verification.hpp"

namespace strata::host {
namespace {

StackResult train_once(Subject& subject) {
  const RunSetup setup = prepare(subject.configuration(), subject.plugins());
  const int ranks = setup.stack.mesh.rank_count();
  return run_setup_stack(setup, DType::f32, 3,
                         [&](int rank) -> std::shared_ptr<Device> { return setup.make_device(rank, ranks); });
}

/// Compares bits, so that NaN equals NaN.
bool is_equal(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

}  // namespace

std::string check_determinism(Subject& subject) {
  const StackResult first = train_once(subject);
  const StackResult second = train_once(subject);
  if (!is_equal(first.losses, second.losses)) throw CheckFailed("the losses of two equal runs differ");
  if (!is_equal(first.gradient_norms, second.gradient_norms)) {
    throw CheckFailed("the gradient norms of two equal runs differ");
  }
  for (const auto& [name, values] : first.parameters) {
    if (!is_equal(values, second.parameters.at(name))) {
      throw CheckFailed("parameter '" + name + "' differs after two equal runs");
    }
  }
  return std::to_string(first.parameters.size()) + " parameters";
}

}  // namespace strata::host
