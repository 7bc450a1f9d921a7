#include "cpu_device.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "host_memory.hpp"
#include "kernels/kernel_library.hpp"
#include "processor.hpp"
#include "strata/error.hpp"
#include "strata/half.hpp"

namespace strata::cpu {
namespace {

class CpuKernel final : public Kernel {
 public:
  explicit CpuKernel(LaunchFunction launch) : launch_(std::move(launch)) {}
  void launch(const KernelArguments& arguments) override { launch_(arguments); }

 private:
  LaunchFunction launch_;
};

bool fits(char letter, const OperandDescription& operand) {
  switch (letter) {
    case 'b':
      return operand.dtype == DType::f32 || operand.dtype == DType::bf16;
    case 'i':
      return operand.dtype == DType::i32;
    case 'd':
      return operand.dtype == DType::f64;
    case 's':
      return operand.dtype == DType::f32 || operand.dtype == DType::f64;
    default:
      return operand.dtype == DType::f32;
  }
}

std::optional<std::string> mismatch(const std::string& letters, const std::vector<OperandDescription>& found,
                                    const std::string& what) {
  const bool repeats = letters.ends_with('*');
  const std::size_t count = repeats ? letters.size() - 1 : letters.size();
  if (repeats ? found.size() < count : found.size() != count) {
    return "takes " + std::to_string(count) + (repeats ? " or more " : " ") + what + "s, found " +
           std::to_string(found.size());
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!fits(letters[std::min(i, count - 1)], found[i])) {
      return what + " " + std::to_string(i) + " cannot be " + std::string(to_string(found[i].dtype));
    }
  }
  return std::nullopt;
}

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
  std::optional<std::string> reason = mismatch(entry->operands, instance.operands, "operand");
  if (!reason) reason = mismatch(entry->results, instance.results, "result");
  if (!reason && entry->unsupported != nullptr) reason = entry->unsupported(instance);
  if (!reason && instance.accumulate && !entry->accumulates) {
    for (const OperandDescription& result : instance.results) {
      if (result.dtype != DType::f32) reason = "adds to results in f32 only";
    }
  }
  if (!reason) return std::nullopt;
  return "the cpu device's '" + instance.op + "' (" + instance.name + "): " + *reason;
}

ComputeKernel CpuDevice::make(const OpInstance& instance) const {
  if (const auto reason = unsupported(instance)) throw ConfigurationError(*reason);
  const KernelEntry& entry = *find_kernel(instance.op);
  try {
    if (instance.accumulate && !entry.accumulates) return prepare_with_accumulation(entry, instance, environment_);
    return entry.prepare(instance, environment_);
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
       .documentation = "Vector instructions of the kernels; auto takes the fastest that the processor has.",
       .choices = {"auto", "portable", "avx2", "avx512"}}};
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
