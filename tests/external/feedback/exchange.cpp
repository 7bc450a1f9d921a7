#include "exchange.hpp"

#include <cmath>
#include <memory>

#include "strata/half.hpp"
#include "strata/kernel_tools.hpp"
#include "strata/op.hpp"
#include "strata/reference_kernel.hpp"

namespace feedback {
namespace {

using namespace strata;

double inverse(double unit) { return unit == 0 ? 0 : 1 / unit; }

bool applies(double scale) { return scale != 0 && std::isfinite(scale); }

// Reference kernels define the ops. They compute in f64, and a written value is rounded to the type of its buffer.

reference::Work define_round(const OpInstance& op) {
  return [count = reference::elements(op.results[0])](const reference::Launch& launch) {
    const double unit = launch.operand(2)[0];
    for (std::int64_t i = 0; i < count; ++i) {
      const double sum = unit * launch.operand(0)[i] + launch.operand(1)[i];
      launch.result(0).overwrite(i, sum);
      launch.result(1).overwrite(i, sum);
    }
  };
}

reference::Work define_sum(const OpInstance& op) {
  return [count = reference::elements(op.results[0]),
          all = reference::elements(op.operands[0])](const reference::Launch& launch) {
    const double factor = inverse(launch.operand(1)[0]);
    for (std::int64_t i = 0; i < count; ++i) {
      double sum = 0;
      for (std::int64_t j = i; j < all; j += count) sum += launch.operand(0)[j];
      launch.result(0).overwrite(i, factor * sum);
    }
  };
}

reference::Work define_keep(const OpInstance& op) {
  return [count = reference::elements(op.results[0])](const reference::Launch& launch) {
    if (!applies(launch.operand(2)[0])) return;
    for (std::int64_t i = 0; i < count; ++i) {
      launch.result(0).overwrite(i, launch.operand(0)[i] - launch.operand(1)[i]);
    }
  };
}

// Fast kernels for gradients in f32.

/// `sent` is in bf16 always, since only the strategy emits these ops.
std::optional<std::string> refuse_other_types(const OpInstance& op, const KernelEnvironment& /*environment*/) {
  if (op.results[0].dtype == DType::f32 && (op.op == kSum || op.operands[0].dtype == DType::f32)) return std::nullopt;
  return "it takes gradients in f32 only";
}

PreparedKernel prepare_round(const OpInstance& op, const KernelEnvironment& environment) {
  return {
      [count = kernels::elements(op.results[0]), threads = environment.threads()](const KernelArguments& arguments) {
        const auto unit = static_cast<float>(*kernels::in<double>(arguments, 2));
        const auto* gradient = kernels::in<float>(arguments, 0);
        const auto* error = kernels::in<float>(arguments, 1);
        auto* sum = kernels::out<float>(arguments, 0);
        auto* sent = kernels::out<std::uint16_t>(arguments, 1);
        kernels::parallel_ranges(threads, count, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            sum[i] = unit * gradient[i] + error[i];
            sent[i] = to_bf16(sum[i]);
          }
        });
      }};
}

PreparedKernel prepare_sum(const OpInstance& op, const KernelEnvironment& environment) {
  return {[count = kernels::elements(op.results[0]), all = kernels::elements(op.operands[0]),
           threads = environment.threads()](const KernelArguments& arguments) {
    const auto factor = static_cast<float>(inverse(*kernels::in<double>(arguments, 1)));
    const auto* sent = kernels::in<std::uint16_t>(arguments, 0);
    auto* gradient = kernels::out<float>(arguments, 0);
    kernels::parallel_ranges(threads, count, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        float sum = 0;
        for (std::int64_t j = i; j < all; j += count) sum += from_bf16(sent[j]);
        gradient[i] = factor * sum;
      }
    });
  }};
}

PreparedKernel prepare_keep(const OpInstance& op, const KernelEnvironment& environment) {
  return {
      [count = kernels::elements(op.results[0]), threads = environment.threads()](const KernelArguments& arguments) {
        if (!applies(*kernels::in<double>(arguments, 2))) return;
        const auto* sum = kernels::in<float>(arguments, 0);
        const auto* sent = kernels::in<std::uint16_t>(arguments, 1);
        auto* error = kernels::out<float>(arguments, 0);
        kernels::parallel_ranges(threads, count, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) error[i] = sum[i] - from_bf16(sent[i]);
        });
      }};
}

}  // namespace

void register_exchange(Registration& registration) {
  const auto op = [&](const char* name, const char* documentation, FlatSignature signature) {
    signature.has_own_sizes = true;
    registration.add(std::make_unique<FlatOp>(name, documentation, std::move(signature)));
  };
  op(kRound, "gradient, error, unit [] f64 -> sum = unit · gradient + error; the sum in bf16.",
     {.inputs = 3, .outputs = 2});
  op(kSum, "bf16 sums of all workers, unit [] f64 -> gradient: their sum / unit, 0 if unit is 0.", {.inputs = 2});
  op(kKeep, "sum, its bf16, scale [] f64 -> error: what was rounded off. It stays if scale is 0 or not finite.",
     {.inputs = 3, .outputs = 0, .states = {kError}});
  // Letters of the types: KernelSignature.
  registration.add(reference::kernel({kRound, "rsd", "sr", define_round, false}));
  registration.add(reference::kernel({kSum, "rd", "r", define_sum, false}));
  registration.add(reference::kernel({kKeep, "srd", "s", define_keep, false}));
  registration.add(
      {.op = kRound, .signature = {"rrd", "rr"}, .prepare = prepare_round, .unsupported = refuse_other_types});
  registration.add({.op = kSum, .signature = {"rd", "r"}, .prepare = prepare_sum, .unsupported = refuse_other_types});
  registration.add(
      {.op = kKeep, .signature = {"rrd", "r"}, .prepare = prepare_keep, .unsupported = refuse_other_types});
}

}  // namespace feedback
