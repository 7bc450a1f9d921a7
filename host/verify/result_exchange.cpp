#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>

#include "strata/error.hpp"
#include "verify/stack_run.hpp"

namespace strata::host {
namespace {

/// Beyond the ids of programs.
constexpr std::uint64_t kLengths = ~std::uint64_t{0} - 1;
constexpr std::uint64_t kTexts = ~std::uint64_t{0};

/// Passes what travels to `archive`, part by part.
template <class Archive, class Result>
void visit(Archive& archive, Result& result) {
  archive(result.losses);
  archive(result.gradient_norms);
  archive(result.evaluations);
  archive(result.metrics);
  archive(result.parameters);
  archive(result.averages);
  archive(result.planned_peak_bytes);
  archive(result.arena_peak_bytes);
}

/// Appends values to a text.
struct Writer {
  std::string text = {};

  /// A text or a list of numbers.
  template <class Values>
  void operator()(const Values& values) {
    append_count(values.size());
    text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(typename Values::value_type));
  }
  void operator()(const WholeTensors& tensors) {
    append_count(tensors.size());
    for (const auto& [name, values] : tensors) {
      (*this)(name);
      (*this)(values);
    }
  }
  void append_count(std::uint64_t count) { text.append(reinterpret_cast<const char*>(&count), sizeof count); }
};

/// Reads what a Writer has written.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  template <class Values>
  void operator()(Values& values) {
    values.resize(count());
    take(values.data(), values.size() * sizeof(typename Values::value_type));
  }
  void operator()(WholeTensors& tensors) {
    for (std::uint64_t left = count(); left > 0; --left) {
      std::string name;
      (*this)(name);
      (*this)(tensors[name]);
    }
  }

 private:
  /// A number of values, of which each has a byte at least.
  std::uint64_t count() {
    std::uint64_t count = 0;
    take(&count, sizeof count);
    if (count > text_.size()) refuse();
    return count;
  }
  void take(void* destination, std::size_t bytes) {
    if (bytes > text_.size()) refuse();
    if (bytes > 0) std::memcpy(destination, text_.data(), bytes);
    text_.remove_prefix(bytes);
  }
  [[noreturn]] static void refuse() { throw RuntimeError("the results of another rank are cut off"); }

  std::string_view text_;
};

/// Gathers `elements` values of each rank.
void gather(Communicator& communicator, Device& device, DType dtype, std::uint64_t id, std::int64_t elements,
            const void* own, void* all) {
  const std::int64_t bytes = elements * static_cast<std::int64_t>(size_of(dtype));
  std::vector<int> members(static_cast<std::size_t>(communicator.rank_count()));
  std::iota(members.begin(), members.end(), 0);
  const std::shared_ptr<void> input = device.allocate(bytes);
  const std::shared_ptr<void> output = device.allocate(bytes * communicator.rank_count());
  device.copy_from_host(StreamKind::compute, input.get(), own, bytes);
  const std::string name = "results of a verification";
  CollectiveCall call{.kind = CollectiveKind::all_gather, .dtype = dtype, .group = communicator.create_group(members)};
  call.input = input.get();
  call.output = output.get();
  call.elements = elements;
  call.id = id;
  call.name = &name;
  communicator.start(call)->wait();
  device.copy_to_host(StreamKind::compute, all, output.get(), bytes * communicator.rank_count());
  device.synchronize(StreamKind::compute);
}

}  // namespace

std::vector<StackResult> gather_results(Communicator& communicator, Device& device, const StackResult& own) {
  Writer writer;
  visit(writer, own);
  const auto length = static_cast<std::int64_t>(writer.text.size());
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(communicator.rank_count()));
  gather(communicator, device, DType::i64, kLengths, 1, &length, lengths.data());
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  writer.text.resize(static_cast<std::size_t>(longest));
  std::string all(writer.text.size() * lengths.size(), '\0');
  gather(communicator, device, DType::i8, kTexts, longest, writer.text.data(), all.data());
  std::vector<StackResult> results(lengths.size());
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    Reader reader(std::string_view(all).substr(rank * writer.text.size(), static_cast<std::size_t>(lengths[rank])));
    visit(reader, results[rank]);
  }
  return results;
}

}  // namespace strata::host
