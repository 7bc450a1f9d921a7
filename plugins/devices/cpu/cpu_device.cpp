#include "cpu_device.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "host_memory.hpp"
#include "kernels/kernel_library.hpp"
#include "processor.hpp"
#include "strata/error.hpp"

namespace strata::cpu {
namespace {

class CpuKernel final : public Kernel {
 public:
  explicit CpuKernel(LaunchFunction launch) : launch_(std::move(launch)) {}
  void launch(const KernelArguments& arguments) override { launch_(arguments); }

 private:
  LaunchFunction launch_;
};

}  // namespace

std::string CpuDevice::description() const {
  const int threads = environment_.threads;
  return processor_name() + ", " + std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") +
         unit_names(environment_.library->instruction_set);
}

std::int64_t CpuDevice::memory_bytes() const { return available_memory_bytes() / ranks_on_host_; }

std::optional<std::string> CpuDevice::unsupported(const OpInstance& instance) const {
  const KernelEntry* entry = find_kernel(instance.op);
  if (entry == nullptr) return "the cpu device has no kernel for op '" + instance.op + "'";
  std::optional<std::string> reason = type_mismatch(*entry, instance);
  if (!reason && entry->unsupported != nullptr) reason = entry->unsupported(instance);
  if (!reason) return std::nullopt;
  return "the cpu device's '" + instance.op + "' (" + instance.name + "): " + *reason;
}

ComputeKernel CpuDevice::make(const OpInstance& instance) const {
  if (const auto reason = unsupported(instance)) throw ConfigurationError(*reason);
  const KernelEntry& entry = *find_kernel(instance.op);
  try {
    return prepare_fitting(entry, instance, environment_);
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw ConfigurationError("the cpu device's '" + instance.op + "' (" + instance.name + "): " + error.what());
  }
}

std::int64_t CpuDevice::workspace_bytes(const OpInstance& instance) const { return make(instance).workspace_bytes; }

std::unique_ptr<Kernel> CpuDevice::prepare(const OpInstance& instance) {
  return std::make_unique<CpuKernel>(make(instance).launch);
}

std::shared_ptr<void> CpuDevice::allocate(std::int64_t bytes) { return allocate_host_memory(bytes); }

const OptionSchema& CpuDeviceFactory::options() const {
  static const OptionSchema kOptions = {
      {.name = "threads",
       .type = OptionType::integer,
       .default_value = std::int64_t{0},
       .documentation = "Threads of each rank; 0 divides the cores among the ranks of the machine.",
       .minimum = 0,
       .maximum = 4096},
      {.name = "instructions",
       .type = OptionType::word,
       .default_value = std::string("auto"),
       .documentation =
           "Instructions of the kernels; auto takes the fastest that the processor has. Matrix products choose "
           "their own.",
       .choices = {"auto", "portable", "avx2", "avx512", "amx"}}};
  return kOptions;
}

std::unique_ptr<Device> CpuDeviceFactory::create(const Options& options, const DeviceRequest& request) const {
  const int ranks = std::max(1, request.ranks_on_host);
  int threads = static_cast<int>(options.integer("threads"));
  if (threads == 0) threads = std::max(1, core_count() / ranks);
  const InstructionSet instructions = instruction_set_named(options.word("instructions"));
  return std::make_unique<CpuDevice>(Environment{&kernel_library(instructions), threads}, ranks);
}

}  // namespace strata::cpu
