#include "cpu_device.hpp"

#include <unistd.h>

#include <algorithm>

#include "host_memory.hpp"
#include "processor.hpp"
#include "strata/machine.hpp"

namespace strata::cpu {

/// Calls register_NAME of every file ops/NAME.cpp. The build generates it.
void register_kernels(Registration& registration);

CpuDevice::CpuDevice(const DeviceRequest& request, int threads, InstructionSet instruction_set)
    : HostMemoryDevice("the cpu device", request.kernels, std::make_unique<CpuEnvironment>(threads, instruction_set),
                       KernelPolicy::fastest),
      threads_(threads),
      instruction_set_(instruction_set),
      ranks_on_host_(std::max(1, request.ranks_on_host)) {}

std::string CpuDevice::description() const {
  return processor_name() + ", " + std::to_string(threads_) + (threads_ == 1 ? " thread, " : " threads, ") +
         unit_names(instruction_set_);
}

std::vector<std::string> CpuDevice::notes() const {
  const int cores = usable_cores();
  const std::string may_use = std::to_string(cores) + (cores == 1 ? " core" : " cores");
  if (threads_ > cores) {
    return {std::to_string(threads_) + " threads share " + may_use +
            ", which is all that this process may use; device.threads = 0 follows that"};
  }
  // A launcher that binds each rank has divided the cores already, and often gives one to each.
  if (cores >= ranks_on_host_ || cores >= ::sysconf(_SC_NPROCESSORS_ONLN)) return {};
  return {"this process may use " + may_use + " of the machine's " + std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)) +
          ", for " + std::to_string(ranks_on_host_) +
          " ranks; if a launcher binds each rank, let it not do so (mpirun --bind-to none, srun --cpu-bind=none)"};
}

std::int64_t CpuDevice::memory_bytes() const { return usable_memory_bytes() / ranks_on_host_; }

std::shared_ptr<void> CpuDevice::allocate(std::int64_t bytes) { return allocate_host_memory(bytes); }

const OptionSchema& CpuDeviceFactory::options() const {
  static const OptionSchema kOptions = {
      {.name = "threads",
       .type = OptionType::integer,
       .default_value = std::int64_t{0},
       .documentation =
           "Threads of each rank; 0 divides the cores that the process may use among the ranks of the machine.",
       .minimum = 0,
       .maximum = 4096,
       .may_differ = true},
      {.name = "instructions",
       .type = OptionType::word,
       .default_value = std::string("auto"),
       .documentation =
           "Instructions of the kernels; auto takes the fastest that the processor has. Matrix products choose "
           "their own.",
       .choices = {"auto", "portable", "avx2", "avx512", "amx"}}};
  return kOptions;
}

void CpuDeviceFactory::provide(Registration& registration, const Options& /*options*/) const {
  register_kernels(registration);
}

std::unique_ptr<Device> CpuDeviceFactory::create(const Options& options, const DeviceRequest& request) const {
  int threads = static_cast<int>(options.integer("threads"));
  if (threads == 0) threads = std::max(1, usable_cores() / std::max(1, request.ranks_on_host));
  return std::make_unique<CpuDevice>(request, threads, instruction_set_named(options.word("instructions")));
}

}  // namespace strata::cpu
