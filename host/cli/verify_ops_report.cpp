#include "cli/verify_ops_report.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <set>

namespace strata::host {
namespace {

using nlohmann::ordered_json;

/// A number as JSON, or a string for NaN and infinity, which JSON lacks.
ordered_json number(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(std::isnan(value) ? "nan" : "infinite");
}

/// Width of a column: the longest name of an op in `checks` and two spaces.
template <class Check>
int op_column(const std::vector<Check>& checks) {
  std::size_t width = 0;
  for (const Check& each : checks) width = std::max(width, each.op.size());
  return static_cast<int>(width) + 2;
}

void print_gradients(std::ostream& out, const std::vector<GradientCheck>& gradients) {
  out << "gradients in f64 against finite differences: largest relative difference, accepted "
      << GradientCheck::kTolerance << '\n';
  const int column = op_column(gradients);
  for (const GradientCheck& each : gradients) {
    out << (each.holds() ? "  ok     " : "  WRONG  ") << std::left << std::setw(column) << each.op << std::right;
    if (!each.fault.empty()) {
      out << each.fault;
    } else {
      out << each.error << "  operand " << each.operand << " " << each.operand_type;
    }
    out << "  ('" << each.node << "', " << each.origin << ")\n";
  }
}

void print_kernels(std::ostream& out, const OpVerification& verification) {
  out << "kernels of device '" << verification.device
      << "' against the reference: largest difference, as a part of what rounding explains\n";
  const int column = op_column(verification.kernels);
  for (const KernelCheck& each : verification.kernels) {
    out << (each.holds() ? "  ok     " : "  WRONG  ") << std::left << std::setw(column) << each.op << std::right;
    if (!each.fault.empty()) {
      out << each.fault;
    } else {
      out << each.error << "  " << each.types << "; " << each.worst << "; " << each.launches << " launches";
    }
    out << "  (" << each.origin << ")\n";
  }
}

}  // namespace

void print_ops(std::ostream& out, const OpVerification& verification) {
  out << std::scientific << std::setprecision(2);
  print_gradients(out, verification.gradients);
  print_kernels(out, verification);
  out << std::defaultfloat;
  std::set<std::string> wrong;
  for (const GradientCheck& each : verification.gradients) {
    if (!each.holds()) wrong.insert("the gradient of '" + each.op + "' of " + each.origin);
  }
  for (const KernelCheck& each : verification.kernels) {
    if (!each.holds()) wrong.insert("the kernel of '" + each.op + "' of " + each.origin);
  }
  if (wrong.empty()) {
    out << "all gradients and kernels are right\n";
    return;
  }
  for (const std::string& each : wrong) out << "WRONG: " << each << '\n';
}

ordered_json ops_json(const OpVerification& verification) {
  ordered_json gradients = ordered_json::array();
  for (const GradientCheck& each : verification.gradients) {
    gradients.push_back({{"ok", each.holds()},
                         {"op", each.op},
                         {"origin", each.origin},
                         {"node", each.node},
                         {"operand", each.operand},
                         {"type", each.operand_type},
                         {"error", number(each.error)},
                         {"fault", each.fault}});
  }
  ordered_json kernels = ordered_json::array();
  for (const KernelCheck& each : verification.kernels) {
    kernels.push_back({{"ok", each.holds()},
                       {"op", each.op},
                       {"types", each.types},
                       {"origin", each.origin},
                       {"launches", each.launches},
                       {"error", number(each.error)},
                       {"worst", each.worst},
                       {"fault", each.fault}});
  }
  return {{"ok", verification.holds()},
          {"device", verification.device},
          {"gradient_tolerance", GradientCheck::kTolerance},
          {"gradients", gradients},
          {"kernels", kernels}};
}

}  // namespace strata::host
