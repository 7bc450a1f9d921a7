#include "simulate/described_device.hpp"

#include "simulate/measured.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

class DescribedDevice final : public Device {
 public:
  DescribedDevice(std::string name, std::int64_t memory_bytes, const OpRegistry& registry,
                  std::set<std::string> measured)
      : name_(std::move(name)), memory_bytes_(memory_bytes), registry_(registry), measured_(std::move(measured)) {}

  [[nodiscard]] std::string description() const override { return name_ + ", described"; }
  [[nodiscard]] std::int64_t memory_bytes() const override { return memory_bytes_; }
  [[nodiscard]] bool is_host_memory() const override { return false; }

  [[nodiscard]] std::optional<std::string> unsupported(const OpInstance& instance) const override {
    if (!registry_.has(instance.op)) return "no plugin has registered the op '" + instance.op + "'";
    const bool is_fused = !registry_.get(instance.op).fusions().empty();
    if (is_fused && !measured_.empty() && !measured_.contains(instance.op)) return "the fused op was not measured";
    return std::nullopt;
  }
  [[nodiscard]] std::int64_t workspace_bytes(const OpInstance& /*instance*/) const override { return 0; }
  [[nodiscard]] std::unique_ptr<Kernel> prepare(const OpInstance& /*instance*/) override { refuse(); }

  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t /*bytes*/) override { refuse(); }
  void copy_from_host(StreamKind /*stream*/, void* /*device*/, const void* /*host*/, std::int64_t /*bytes*/) override {
    refuse();
  }
  void copy_to_host(StreamKind /*stream*/, void* /*host*/, const void* /*device*/, std::int64_t /*bytes*/) override {
    refuse();
  }
  void copy(StreamKind /*stream*/, void* /*destination*/, const void* /*source*/, std::int64_t /*bytes*/) override {
    refuse();
  }
  void copy_rows(StreamKind /*stream*/, void* /*destination*/, std::int64_t /*destination_pitch*/,
                 const void* /*source*/, std::int64_t /*source_pitch*/, std::int64_t /*width*/,
                 std::int64_t /*rows*/) override {
    refuse();
  }
  void reduce(StreamKind /*stream*/, Reduction /*reduction*/, DType /*dtype*/, void* /*destination*/,
              std::span<const void* const> /*sources*/, std::int64_t /*elements*/) override {
    refuse();
  }
  void fill_zero(StreamKind /*stream*/, void* /*destination*/, std::int64_t /*bytes*/) override { refuse(); }
  [[nodiscard]] std::shared_ptr<Event> record(StreamKind /*stream*/) override { refuse(); }
  void wait(StreamKind /*stream*/, const std::shared_ptr<Event>& /*event*/) override { refuse(); }
  void synchronize(StreamKind /*stream*/) override { refuse(); }

 private:
  [[noreturn]] void refuse() const { throw RuntimeError("the device '" + name_ + "' is only described"); }

  std::string name_;
  std::int64_t memory_bytes_;
  const OpRegistry& registry_;
  std::set<std::string> measured_;
};

}  // namespace

std::unique_ptr<Device> described_device(const std::string& name, std::int64_t memory_bytes, const OpRegistry& registry,
                                         std::set<std::string> measured) {
  return std::make_unique<DescribedDevice>(name, memory_bytes, registry, std::move(measured));
}

std::unique_ptr<Device> described_device(const Cluster& cluster, int ranks, const OpRegistry& registry) {
  return described_device(cluster.name, cluster.least_memory_bytes(ranks), registry, measured_ops(cluster));
}

}  // namespace strata::host
