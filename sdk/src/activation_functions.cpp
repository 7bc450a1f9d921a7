#include <cmath>
#include <numbers>
#include <string>

#include "strata/activation.hpp"
#include "strata/error.hpp"
#include "strata/tensor.hpp"

namespace strata {
namespace {

double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// Constants of the tanh approximation of GELU: x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))).
constexpr double kCubic = 0.044715;
const double kGeluScale = std::sqrt(2.0 / std::numbers::pi);

double gelu_tanh(double x) { return 0.5 * x * (1.0 + std::tanh(kGeluScale * (x + kCubic * x * x * x))); }

double gelu_tanh_derivative(double x) {
  const double t = std::tanh(kGeluScale * (x + kCubic * x * x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * kGeluScale * (1.0 + 3.0 * kCubic * x * x);
}

/// The distribution function of the standard normal distribution.
double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double gelu(double x) { return x * normal_distribution(x); }
double gelu_derivative(double x) {
  return normal_distribution(x) + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
}

double tanh_derivative(double x) { return 1.0 - std::tanh(x) * std::tanh(x); }

double relu(double x) { return x > 0.0 ? x : 0.0; }
double relu_derivative(double x) { return x > 0.0 ? 1.0 : 0.0; }

double logistic_derivative(double x) { return logistic(x) * (1.0 - logistic(x)); }

double silu(double x) { return x * logistic(x); }
double silu_derivative(double x) {
  const double s = logistic(x);
  return s * (1.0 + x * (1.0 - s));
}

}  // namespace

const std::vector<ActivationFunction>& activation_functions() {
  static const std::vector<ActivationFunction> kFunctions = {
      // Hendrycks, Gimpel, "Gaussian Error Linear Units", 2016.
      {"gelu", gelu, gelu_derivative},
      {"gelu_tanh", gelu_tanh, gelu_tanh_derivative},
      {"relu", relu, relu_derivative},
      {"sigmoid", logistic, logistic_derivative},
      // Ramachandran, Zoph, Le, "Searching for Activation Functions", 2017.
      {"silu", silu, silu_derivative},
      {"tanh", [](double x) { return std::tanh(x); }, tanh_derivative},
  };
  return kFunctions;
}

const ActivationFunction& activation_function(std::string_view kind) {
  std::vector<std::string> known;
  for (const ActivationFunction& each : activation_functions()) {
    if (each.kind == kind) return each;
    known.emplace_back(each.kind);
  }
  throw VerificationError("unknown kind of activation '" + std::string(kind) + "'; accepted: " + join(known, ", "));
}

}  // namespace strata
