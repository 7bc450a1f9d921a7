#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "cpu_kernel.hpp"
#include "strata/error.hpp"
#include "strata/host_memory_device.hpp"
#include "strata/machine.hpp"
#include "strata/plugin.hpp"

namespace strata::cpu {

/// Calls register_NAME of every file ops/NAME.cpp. The build generates it.
void register_kernels(Registration& registration);

namespace {

/// Device::allocate promises it.
constexpr std::int64_t kAlignment = 256;
constexpr std::int64_t kHugePage = 2LL << 20U;

std::int64_t round_up(std::int64_t bytes, std::int64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

[[noreturn]] void fail(std::int64_t bytes) {
  throw RuntimeError("the cpu device cannot allocate " + std::to_string(bytes) + " bytes");
}

std::shared_ptr<void> allocate_small(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(std::max(kAlignment, round_up(bytes, kAlignment)));
  void* memory = std::aligned_alloc(kAlignment, size);
  if (memory == nullptr) fail(bytes);
  std::memset(memory, 0, size);
  return {memory, std::free};
}

/// Zeroed memory that is aligned to a cache line, on huge pages if it is large. \throws RuntimeError if memory is
/// short.
std::shared_ptr<void> allocate_host_memory(std::int64_t bytes) {
  if (bytes < 2 * kHugePage) return allocate_small(bytes);
  // Mapped pages are zero already. Alignment to huge pages saves TLB misses.
  const auto size = static_cast<std::size_t>(round_up(bytes, kHugePage) + kHugePage);
  void* mapping = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) fail(bytes);
  void* memory = mapping;
  std::size_t space = size;
  std::align(kHugePage, size - kHugePage, memory, space);
  static_cast<void>(madvise(memory, size - kHugePage, MADV_HUGEPAGE));
  return {memory, [mapping, size](void*) { munmap(mapping, size); }};
}

/// The value of the first "key : value" line of /proc/cpuinfo. Empty if there is none.
std::string processor_field(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

/// Such as "AMD EPYC 7763 64-Core Processor", or the architecture if the system gives no name.
std::string processor_name() {
  const std::string name = processor_field("model name");
  if (!name.empty()) return name;
  utsname system{};
  return uname(&system) == 0 ? system.machine : "unknown processor";
}

/// The instruction sets that kernels and matrix products use, such as "AVX-512, AMX for bf16".
std::string unit_names(InstructionSet instruction_set) {
  std::string names = "baseline units";
  if (instruction_set == InstructionSet::avx2) names = "AVX2";
  if (instruction_set >= InstructionSet::avx512) names = "AVX-512";
  const std::string flags = processor_field("flags") + " ";
  if (flags.find(" amx_bf16 ") != std::string::npos) return names + ", AMX for bf16";
  if (flags.find(" avx512_bf16 ") != std::string::npos) return names + ", AVX-512 for bf16";
  return names;
}

/// \throws ConfigurationError if the processor lacks the instruction set.
InstructionSet instruction_set_named(const std::string& word) {
  if (word == "auto") return best_instruction_set();
  for (const InstructionSet each :
       {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512, InstructionSet::amx}) {
    if (word == name(each) && is_supported(each)) return each;
  }
  throw ConfigurationError("this processor has no " + word + " instructions");
}

/// A device in host memory with a share of the processor's cores. Ops without a kernel of the device run their
/// reference kernel.
class CpuDevice final : public HostMemoryDevice {
 public:
  CpuDevice(const DeviceRequest& request, int threads, InstructionSet instruction_set)
      : HostMemoryDevice("the cpu device", request.kernels, std::make_unique<CpuEnvironment>(threads, instruction_set),
                         KernelPolicy::fastest),
        threads_(threads),
        instruction_set_(instruction_set),
        ranks_on_host_(std::max(1, request.ranks_on_host)) {}

  [[nodiscard]] std::string description() const override {
    return processor_name() + ", " + std::to_string(threads_) + (threads_ == 1 ? " thread, " : " threads, ") +
           unit_names(instruction_set_);
  }

  [[nodiscard]] std::vector<std::string> notes() const override {
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

  [[nodiscard]] std::int64_t memory_bytes() const override { return usable_memory_bytes() / ranks_on_host_; }

  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t bytes) override { return allocate_host_memory(bytes); }

 private:
  int threads_;
  InstructionSet instruction_set_;
  int ranks_on_host_;
};

class CpuDeviceFactory final : public DeviceFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override {
    static const OptionSchema kOptions = {
        {.name = "threads",
         .type = OptionType::integer,
         .default_value = std::int64_t{0},
         .documentation =
             "Threads of each rank; 0 divides the cores that the process may use among the ranks of the machine.",
         .minimum = 0,
         .maximum = 4096,
         .may_differ = true},
        option::word(
            "instructions", "auto",
            "Instructions of the kernels; auto takes the fastest that the processor has. Matrix products choose "
            "their own.",
            {"auto", "portable", "avx2", "avx512", "amx"})};
    return kOptions;
  }

  void provide(Registration& registration, const Options& /*options*/) const override {
    register_kernels(registration);
  }

  [[nodiscard]] std::unique_ptr<Device> create(const Options& options, const DeviceRequest& request) const override {
    int threads = static_cast<int>(options.integer("threads"));
    if (threads == 0) threads = std::max(1, usable_cores() / std::max(1, request.ranks_on_host));
    return std::make_unique<CpuDevice>(request, threads, instruction_set_named(options.word("instructions")));
  }
};

}  // namespace
}  // namespace strata::cpu

STRATA_PLUGIN(device, "cpu", STRATA_VERSION, "Apache-2.0",
              "The processor's vector and matrix units, on f32, bf16 and f16 elements", strata::cpu::CpuDeviceFactory);
