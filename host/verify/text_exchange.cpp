#include "verify/text_exchange.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>

namespace strata::host {
namespace {

/// Beyond the ids of programs.
constexpr std::uint64_t kLengths = ~std::uint64_t{0} - 1;
constexpr std::uint64_t kTexts = ~std::uint64_t{0};

/// Bytes in the memory of a device.
class DeviceBytes {
 public:
  DeviceBytes(Device& device, std::int64_t bytes) : device_(device), bytes_(bytes), memory_(device.allocate(bytes)) {}

  [[nodiscard]] void* data() const { return memory_.get(); }
  void set(const void* host) { device_.copy_from_host(StreamKind::compute, data(), host, bytes_); }
  void get(void* host) const { device_.copy_to_host(StreamKind::compute, host, data(), bytes_); }

 private:
  Device& device_;
  std::int64_t bytes_;
  std::shared_ptr<void> memory_;
};

}  // namespace

std::vector<std::string> gather_texts(Communicator& communicator, Device& device, const std::string& text) {
  const auto ranks = static_cast<std::size_t>(communicator.rank_count());
  std::vector<int> members(ranks);
  std::iota(members.begin(), members.end(), 0);
  const std::string name = "results of a verification";
  CollectiveCall call{.kind = CollectiveKind::all_gather, .group = communicator.create_group(members)};
  call.name = &name;
  const auto gather = [&](DType dtype, std::uint64_t id, std::int64_t elements, const void* from, void* to) {
    const std::int64_t bytes = elements * static_cast<std::int64_t>(size_of(dtype));
    DeviceBytes input(device, bytes);
    DeviceBytes output(device, bytes * communicator.rank_count());
    input.set(from);
    call.dtype = dtype;
    call.id = id;
    call.elements = elements;
    call.input = input.data();
    call.output = output.data();
    communicator.start(call)->wait();
    output.get(to);
    device.synchronize(StreamKind::compute);
  };
  const auto length = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> lengths(ranks);
  gather(DType::i64, kLengths, 1, &length, lengths.data());
  const std::int64_t longest = std::max<std::int64_t>(1, *std::max_element(lengths.begin(), lengths.end()));
  std::string padded = text;
  padded.resize(static_cast<std::size_t>(longest));
  std::string all(padded.size() * ranks, '\0');
  gather(DType::i8, kTexts, longest, padded.data(), all.data());
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    texts.push_back(all.substr(rank * padded.size(), static_cast<std::size_t>(lengths[rank])));
  }
  return texts;
}

}  // namespace strata::host
