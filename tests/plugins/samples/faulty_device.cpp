#include <atomic>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "endings.hpp"
#include "strata/host_memory_device.hpp"

namespace {

/// A kernel that may end in its launch or its destructor.
class FaultyKernel final : public strata::Kernel {
 public:
  FaultyKernel(std::unique_ptr<strata::Kernel> inner, std::string fault)
      : inner_(std::move(inner)), fault_(std::move(fault)) {}
  ~FaultyKernel() override { endings::end_hook(fault_, "kernel destructor"); }
  FaultyKernel(const FaultyKernel&) = delete;
  FaultyKernel& operator=(const FaultyKernel&) = delete;

  void launch(const strata::KernelArguments& arguments) override {
    endings::end_hook(fault_, "launch");
    inner_->launch(arguments);
  }

 private:
  std::unique_ptr<strata::Kernel> inner_;
  std::string fault_;
};

/// A device in host memory, with the fault that a test selects.
class FaultyDevice final : public strata::HostMemoryDevice {
 public:
  FaultyDevice(std::string fault, const strata::DeviceRequest& request)
      : HostMemoryDevice("the faulty device", request.kernels, std::make_unique<strata::KernelEnvironment>("host", 1),
                         strata::KernelPolicy::reference_only),
        fault_(std::move(fault)) {}
  ~FaultyDevice() override { endings::end_hook(fault_, "destructor"); }
  FaultyDevice(const FaultyDevice&) = delete;
  FaultyDevice& operator=(const FaultyDevice&) = delete;

  [[nodiscard]] std::string description() const override {
    if (fault_ == "description") throw 42;
    return fault_ == "no UTF-8" ? "\xff\xfe" : "faulty";
  }
  [[nodiscard]] std::int64_t memory_bytes() const override {
    if (fault_ == "memory_bytes") throw 42;
    return 1LL << 30;
  }
  [[nodiscard]] std::optional<std::string> unsupported(const strata::OpInstance& instance) const override {
    if (fault_ == "unsupported") throw std::out_of_range("too far");
    return HostMemoryDevice::unsupported(instance);
  }
  [[nodiscard]] std::int64_t workspace_bytes(const strata::OpInstance& instance) const override {
    return fault_ == "workspace_bytes" ? -1 : HostMemoryDevice::workspace_bytes(instance);
  }
  [[nodiscard]] std::unique_ptr<strata::Kernel> prepare(const strata::OpInstance& instance) override {
    if (fault_ == "prepare throws") throw 42;
    endings::end_hook(fault_, "prepare");
    if (fault_ == "prepare") return nullptr;
    return std::make_unique<FaultyKernel>(HostMemoryDevice::prepare(instance), fault_);
  }
  [[nodiscard]] std::optional<strata::KernelChoice> kernel_choice(const strata::OpInstance& instance) const override {
    if (fault_ == "kernel_choice") throw std::out_of_range("too far");
    // Every kernel is a last resort, so that reports name the device.
    std::optional<strata::KernelChoice> choice = HostMemoryDevice::kernel_choice(instance);
    if (choice && fault_ != "none") choice->is_last_resort = true;
    return choice;
  }
  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t bytes) override {
    endings::end_hook(fault_, "allocate");
    if (fault_ == "allocate") return nullptr;
    const auto size = static_cast<std::size_t>((bytes + 63) / 64 * 64 + 64);
    void* memory = std::aligned_alloc(64, size);
    std::memset(memory, 0, size);
    return {memory, [fault = fault_](void* address) {
              endings::end_hook(fault, "release of memory");
              std::free(address);
            }};
  }
  void copy_to_host(strata::StreamKind stream, void* host, const void* device, std::int64_t bytes) override {
    if (fault_ == "copy_to_host") throw std::out_of_range("too far");
    HostMemoryDevice::copy_to_host(stream, host, device, bytes);
    // Of a whole process, one bit of the first copy that is larger than what ranks agree about.
    static std::atomic<bool> has_flipped{false};
    if (fault_ == "a bit flips" && bytes >= 4096 && !has_flipped.exchange(true))
      *static_cast<unsigned char*>(host) ^= 1U;
  }

 private:
  std::string fault_;
};

class Factory final : public strata::DeviceFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<strata::Device> create(const strata::Options& options,
                                                       const strata::DeviceRequest& request) const override {
    const std::string& fault = options.word("fault");
    if (fault == "create") throw 42;
    if (fault == "nothing") return nullptr;
    return std::make_unique<FaultyDevice>(fault, request);
  }

 private:
  strata::OptionSchema schema_ = {
      {.name = "fault", .type = strata::OptionType::word, .default_value = "create", .documentation = "The fault."}};
};

}  // namespace

STRATA_PLUGIN(device, "faulty_device", "1.0.0", "Apache-2.0", "A device with the fault that it is asked for.", Factory);
