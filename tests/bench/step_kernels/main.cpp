// Times every kernel of a configuration's training step on its device. Prints each beside the shortest time that the
// device could take for it: the larger of arithmetic over matrix rate and bytes over copy rate. Both rates are measured
// first.
// Usage: step_kernels CONFIG [--set KEY=VALUE]... (step_kernels --help)

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command_arguments.hpp"
#include "loading/plugin_registry.hpp"
#include "reports/program_summary.hpp"
#include "setup/run_setup.hpp"
#include "strata/error.hpp"

namespace strata::bench {
namespace {

struct Settings {
  host::ConfigurationArguments configuration;
  TimerSettings timer;
  std::vector<std::int64_t> matrix_sizes = {4096, 8192};
  std::int64_t copy_bytes = std::int64_t{1} << 30;
  std::string json;
};

struct TimedKernel {
  StepKernel kernel;
  double seconds = 0;
};

/// bin/bench/step_kernels loads the plugins of bin/strata.
host::PluginRegistry make_plugins() {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  const char* places = std::getenv("STRATA_PLUGIN_PATH");
  return host::PluginRegistry(
      host::plugin_search_places(program.parent_path().parent_path(), {places == nullptr ? "" : places, "", ""}));
}

/// The type in which most of the arithmetic is done.
DType matrix_type(const std::vector<StepKernel>& kernels) {
  std::map<DType, double> flops;
  for (const StepKernel& each : kernels) {
    if (each.instance.op.starts_with("linear")) flops[each.instance.operands.front().dtype] += each.flops;
  }
  if (flops.empty()) return DType::f32;
  return std::max_element(flops.begin(), flops.end(), [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

void print_row(const TimedKernel& timed, const MachineRates& rates) {
  const StepKernel& kernel = timed.kernel;
  const bool memory = rates.is_bound_by_memory(kernel);
  const double rate = (memory ? kernel.bytes * 1e-9 : kernel.flops * 1e-12) / timed.seconds;
  std::printf("| %s (%s) | %lld | %.1f | %.2f | %.4g %s | %.0f %% |\n", kernel.label.c_str(),
              kernel.instance.name.c_str(), static_cast<long long>(kernel.calls), timed.seconds * 1e6,
              static_cast<double>(kernel.calls) * timed.seconds * 1e3, rate, memory ? "GB/s" : "TFLOP/s",
              100 * rates.floor_seconds(kernel) / timed.seconds);
}

void print_table(const std::vector<TimedKernel>& kernels, const MachineRates& rates, double tokens) {
  std::printf("| kernel (one of its launches) | calls | µs | ms per step | rate | of its roofline |\n");
  std::printf("|---|---|---|---|---|---|\n");
  double seconds = 0;
  double floor = 0;
  for (const TimedKernel& each : kernels) {
    print_row(each, rates);
    seconds += static_cast<double>(each.kernel.calls) * each.seconds;
    floor += static_cast<double>(each.kernel.calls) * rates.floor_seconds(each.kernel);
  }
  std::printf("\nkernels of a step of %.0f tokens: %.2f ms, %.0f tokens/s; at the roofline %.2f ms (%.0f %%)\n", tokens,
              seconds * 1e3, tokens / seconds, floor * 1e3, 100 * floor / seconds);
}

void write_json(const std::string& path, const std::string& device, const std::vector<TimedKernel>& kernels,
                const MachineRates& rates, DType dtype) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TimedKernel& each : kernels) {
    list.push_back({{"kernel", each.kernel.label},
                    {"example", each.kernel.instance.name},
                    {"calls", each.kernel.calls},
                    {"seconds", each.seconds},
                    {"flops", each.kernel.flops},
                    {"bytes", each.kernel.bytes},
                    {"share_of_roofline", rates.floor_seconds(each.kernel) / each.seconds}});
  }
  std::ofstream file(path);
  file << nlohmann::ordered_json{{"device", device},
                                 {"dtype", std::string(to_string(dtype))},
                                 {"flops_per_second", rates.flops_per_second},
                                 {"bytes_per_second", rates.bytes_per_second},
                                 {"kernels", list}}
              .dump(2)
       << '\n';
  if (!file.flush()) throw RuntimeError("--json '" + path + "': cannot be written");
}

void run(const Settings& settings) {
  host::PluginRegistry plugins = make_plugins();
  const host::RunSetup setup = host::prepare(settings.configuration.load(), plugins);
  if (setup.stack.mesh.rank_count() != 1) {
    throw ConfigurationError("found a stack of " + std::to_string(setup.stack.mesh.rank_count()) +
                             " ranks; accepted: one rank, whose kernels have the whole sizes");
  }
  const std::unique_ptr<Device> device = setup.make_device(0, 1);
  const DimSizes sizes = setup.sizes_without_data();
  host::CompileRequest request = setup.request(GraphMode::training, sizes);
  request.device = device.get();
  const host::Compiled compiled = setup.compile(request);
  const std::vector<StepKernel> kernels = step_kernels(compiled.program(0), *setup.ops, setup.seed());

  TimerSettings limits = settings.timer;
  for (const DatasetInput& input : setup.inputs) {
    if (!input.indexes.empty()) limits.integers_below = std::min(limits.integers_below, sizes.at(input.indexes));
  }
  KernelTimer timer(*device, limits);
  const DType dtype = matrix_type(kernels);
  const MachineRates rates = measure_machine(timer, *setup.ops, dtype, settings.matrix_sizes, settings.copy_bytes);
  std::printf("%s: %.1f TFLOP/s in %s matrix products, %.1f GB/s in copies (read and written)\n\n",
              device->description().c_str(), rates.flops_per_second * 1e-12, std::string(to_string(dtype)).c_str(),
              rates.bytes_per_second * 1e-9);
  std::vector<TimedKernel> timed;
  for (const StepKernel& kernel : kernels) timed.push_back({kernel, timer.seconds(kernel)});
  print_table(timed, rates,
              static_cast<double>(host::loss_elements(compiled.graph)) * compiled.program(0).micro_batches);
  if (!settings.json.empty()) write_json(settings.json, device->description(), timed, rates, dtype);
}

void add_options(CLI::App& app, Settings& settings) {
  host::add_configuration(app, settings.configuration);
  app.add_option("--repetitions", settings.timer.repetitions, "Timings of a kernel of which the median counts")
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", settings.timer.seconds, "How long each of them lasts at least");
  app.add_option("--rotate", settings.timer.rotation_bytes, "Bytes of operands that launches go round over");
  app.add_option("--matrix-size", settings.matrix_sizes, "Sizes of the square products that give the matrix rate")
      ->check(CLI::PositiveNumber);
  app.add_option("--copy", settings.copy_bytes, "Bytes of the copy that gives the copy rate")
      ->check(CLI::PositiveNumber);
  app.add_option("--json", settings.json, "Write rates and times here too")->type_name("FILE");
}

}  // namespace
}  // namespace strata::bench

int main(int argument_count, char** arguments) {
  strata::bench::Settings settings;
  CLI::App app("Times every kernel of a configuration's training step on its device.", "step_kernels");
  strata::bench::add_options(app, settings);
  CLI11_PARSE(app, argument_count, arguments);
  try {
    strata::bench::run(settings);
  } catch (const strata::ConfigurationError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
