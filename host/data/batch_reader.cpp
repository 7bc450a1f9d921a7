#include "data/batch_reader.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "runtime/element.hpp"
#include "runtime/tensor_part.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

class NeedsCollector {
 public:
  explicit NeedsCollector(const std::vector<DatasetInput>& inputs) : inputs_(inputs), wanted_(inputs.size()) {}

  void add(const Program& program, int rank) {
    const Coordinates coordinates = program.mesh.coordinates(rank);
    for (const Task& task : program.tasks) {
      for (const Instruction& instruction : task.instructions) {
        const auto* load = instruction.as<LoadInput>();
        if (load == nullptr) continue;
        const auto input = find_input(inputs_, instruction.name, load->dims.size());
        if (!input) throw VerificationError("the program loads '" + instruction.name + "', which the dataset lacks");
        wanted_[*input] = true;
        if (inputs_[*input].per_sample) add_samples(program, load->dims.front(), coordinates);
      }
    }
  }

  [[nodiscard]] BatchNeeds take() const {
    BatchNeeds needs{wanted_, {}};
    for (std::size_t sample = 0; sample < samples_.size(); ++sample) {
      if (samples_[sample]) needs.samples.push_back(static_cast<std::int64_t>(sample));
    }
    return needs;
  }

 private:
  void add_samples(const Program& program, const ShardedDim& batch, const Coordinates& coordinates) {
    const IndexMap map = index_map(batch, program.mesh, coordinates);
    samples_.resize(static_cast<std::size_t>(map.global_size * program.micro_batches));
    for (std::int64_t micro_batch = 0; micro_batch < program.micro_batches; ++micro_batch) {
      for (std::int64_t i = 0; i < map.local_size(); ++i) {
        samples_[static_cast<std::size_t>(micro_batch * map.global_size + map.global_index(i))] = true;
      }
    }
  }

  const std::vector<DatasetInput>& inputs_;
  std::vector<bool> wanted_;
  std::vector<bool> samples_;
};

/// Copies a rank's `part` of the values of one sample, or of an input that all samples share. `source`: row-major
/// values of type `from`, whole. `destination`: row-major over the part, of type `to`. Floating-point values may have
/// another type there.
void copy_part(const TensorPart& part, const std::byte* source, DType from, DType to, std::byte* destination) {
  if (from != to && !(is_floating_point(from) && is_floating_point(to))) {
    throw VerificationError("an input of type " + std::string(to_string(from)) + " is read as " +
                            std::string(to_string(to)));
  }
  for_each_run(part, [&](std::int64_t local, std::int64_t global, std::int64_t length) {
    if (from == to) {
      const auto size = static_cast<std::int64_t>(size_of(from));
      std::memcpy(destination + local * size, source + global * size, static_cast<std::size_t>(length * size));
      return;
    }
    for (std::int64_t i = 0; i < length; ++i) {
      store_element(to, destination, local + i, load_element(from, source, global + i));
    }
  });
}

std::size_t slot_count(const BatchReader& reader, const ReadAheadSettings& settings) {
  const std::int64_t fitting = settings.bytes / std::max<std::int64_t>(1, reader.batch_bytes());
  return static_cast<std::size_t>(std::clamp<std::int64_t>(fitting, 2, std::max(2, settings.batches)));
}

/// Several threads take few samples at a time, so that they end together.
std::size_t share_of(const BatchReader& reader, int threads) {
  const std::size_t shares = threads == 1 ? 1 : 4 * static_cast<std::size_t>(threads);
  return std::max<std::size_t>(1, reader.batch_samples() / shares);
}

}  // namespace

BatchNeeds batch_needs(const Compiled& compiled, const std::vector<int>& ranks,
                       const std::vector<DatasetInput>& inputs) {
  NeedsCollector collector(inputs);
  for (const int rank : ranks) collector.add(compiled.program(rank), rank);
  return collector.take();
}

BatchReader::BatchReader(const DataSource& source, const DimSizes& sizes, BatchNeeds needs, FindSample find)
    : source_(source), needs_(std::move(needs)), find_(std::move(find)) {
  std::vector<void*> destinations;
  bool any_common = false;
  for (const DatasetInput& input : source.inputs()) {
    const std::size_t index = layouts_.size();
    Layout& layout = layouts_.emplace_back();
    std::vector<std::byte>& common = common_.emplace_back();
    if (needs_.inputs[index]) {
      layout.elements = element_count(shape_of(input.dims, sizes));
      layout.bytes = layout.elements * static_cast<std::int64_t>(size_of(input.dtype));
      layout.limit = input.indexes.empty() ? std::numeric_limits<std::int32_t>::max() : sizes.at(input.indexes);
      if (!input.per_sample) common.resize(static_cast<std::size_t>(layout.bytes));
    }
    any_common = any_common || !common.empty();
    destinations.push_back(common.empty() ? nullptr : common.data());
  }
  if (!any_common) return;
  source.read_common(destinations);
  for (std::size_t i = 0; i < common_.size(); ++i) require_in_range(i, common_[i]);
}

std::int64_t BatchReader::batch_bytes() const {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    if (source_.inputs()[i].per_sample) bytes += layouts_[i].bytes * std::ssize(needs_.samples);
  }
  return bytes;
}

void BatchReader::reserve(Batch& batch) const {
  batch.values.resize(layouts_.size());
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    if (!source_.inputs()[i].per_sample) continue;
    batch.values[i].resize(static_cast<std::size_t>(layouts_[i].bytes) * needs_.samples.size());
  }
}

void BatchReader::read(const BatchPart& samples, Batch& batch) const {
  std::vector<void*> destinations(layouts_.size());
  for (std::size_t row = samples.begin; row < samples.end; ++row) {
    const std::optional<SampleKey> key = find_(samples.step, needs_.samples[row]);
    if (!key) {
      fill(batch, row);
      continue;
    }
    for (std::size_t i = 0; i < layouts_.size(); ++i) {
      std::vector<std::byte>& values = batch.values[i];
      destinations[i] = values.empty() ? nullptr : values.data() + row * static_cast<std::size_t>(layouts_[i].bytes);
    }
    source_.read(*key, destinations);
  }
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    if (batch.values[i].empty()) continue;
    const auto bytes = static_cast<std::size_t>(layouts_[i].bytes);
    const std::span<const std::byte> values(batch.values[i]);
    require_in_range(i, values.subspan(samples.begin * bytes, (samples.end - samples.begin) * bytes));
  }
}

void BatchReader::fill(Batch& batch, std::size_t row) const {
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    if (batch.values[i].empty()) continue;
    const auto bytes = static_cast<std::size_t>(layouts_[i].bytes);
    // The bytes of -1 are all 255.
    std::memset(batch.values[i].data() + row * bytes, source_.inputs()[i].is_target ? 0xFF : 0, bytes);
  }
}

void BatchReader::require_in_range(std::size_t input, std::span<const std::byte> values) const {
  const DatasetInput& declared = source_.inputs()[input];
  if (declared.dtype != DType::i32 || values.empty()) return;
  const std::span integers(reinterpret_cast<const std::int32_t*>(values.data()), values.size() / sizeof(std::int32_t));
  const std::int64_t limit = layouts_[input].limit;
  const int least = declared.is_target ? -1 : 0;
  const auto bad = std::find_if(integers.begin(), integers.end(),
                                [&](std::int32_t value) { return value < least || value >= limit; });
  if (bad == integers.end()) return;
  throw RuntimeError(source_.origin().label + " gives input '" + declared.name + "' the value " + std::to_string(*bad) +
                     "; expected: at least " + std::to_string(least) + " and below " + std::to_string(limit) +
                     (declared.indexes.empty() ? "" : ", the size of dimension '" + declared.indexes + "'"));
}

std::int64_t BatchReader::row_of(std::int64_t sample) const {
  const auto found = std::lower_bound(needs_.samples.begin(), needs_.samples.end(), sample);
  if (found == needs_.samples.end() || *found != sample) {
    throw VerificationError("a rank loads sample " + std::to_string(sample) + ", which was not read");
  }
  return found - needs_.samples.begin();
}

void BatchReader::load(const Batch& batch, const InputPart& part) const {
  const auto input = find_input(source_.inputs(), part.name, part.dims.size());
  if (!input || !needs_.inputs[*input]) {
    throw VerificationError("a rank loads the input '" + part.name + "', which was not read");
  }
  const DType dtype = source_.inputs()[*input].dtype;
  std::vector<IndexMap> dims(part.dims.begin(), part.dims.end());
  if (!source_.inputs()[*input].per_sample) {
    return copy_part(TensorPart::block(std::move(dims)), common_[*input].data(), dtype, part.dtype, part.destination);
  }
  dims.erase(dims.begin());
  const TensorPart inner = TensorPart::block(std::move(dims));
  const std::int64_t bytes = inner.elements() * static_cast<std::int64_t>(size_of(part.dtype));
  for (const IndexSegment& each : part.dims.front().segments) {
    for (std::int64_t i = 0; i < each.length; ++i) {
      const std::byte* source = batch.values[*input].data() + row_of(each.global_begin + i) * layouts_[*input].bytes;
      copy_part(inner, source, dtype, part.dtype, part.destination + (each.local_begin + i) * bytes);
    }
  }
}

ReadAhead::ReadAhead(const BatchReader& reader, const ReadAheadSettings& settings)
    : reader_(reader),
      ranks_(settings.ranks),
      share_(share_of(reader, settings.threads)),
      slots_(slot_count(reader, settings)),
      next_step_(settings.first_step) {
  for (Slot& each : slots_) {
    reader_.reserve(each.batch);
    each.releases = ranks_;
  }
  for (int i = 0; i < settings.threads; ++i) threads_.emplace_back([this] { read_all(); });
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
  }
  changed_.notify_all();
  for (std::thread& each : threads_) each.join();
}

std::optional<BatchPart> ReadAhead::take_part() {
  std::unique_lock lock(mutex_);
  const auto has_memory = [&] { return next_sample_ > 0 || slot(next_step_).releases == ranks_; };
  changed_.wait(lock, [&] { return is_ended_ || failure_ || has_memory(); });
  if (is_ended_ || failure_) return std::nullopt;
  const std::size_t samples = reader_.batch_samples();
  if (next_sample_ == 0) {
    Slot& next = slot(next_step_);
    next.step = next_step_;
    next.unread = samples;
    next.releases = 0;
  }
  const BatchPart taken{next_step_, next_sample_, std::min(next_sample_ + share_, samples)};
  next_sample_ = taken.end;
  if (next_sample_ == samples) {
    ++next_step_;
    next_sample_ = 0;
  }
  return taken;
}

void ReadAhead::read_all() {
  while (const std::optional<BatchPart> samples = take_part()) {
    Slot& target = slot(samples->step);
    std::optional<std::string> failure;
    try {
      reader_.read(*samples, target.batch);
    } catch (...) {
      failure = current_exception_text();
    }
    {
      const std::lock_guard lock(mutex_);
      if (!failure) {
        target.unread -= samples->end - samples->begin;
      } else if (!failure_ || samples->step < failed_step_) {
        failure_ = failure;
        failed_step_ = samples->step;
      }
    }
    changed_.notify_all();
  }
}

ReadAhead::Outcome ReadAhead::wait(std::uint64_t step) {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  Slot& wanted = slot(step);
  const auto has_failed = [&] { return failure_ && step >= failed_step_; };
  const auto is_there = [&] { return wanted.step == step && wanted.unread == 0 && wanted.releases < ranks_; };
  const auto is_known = [&] { return is_there() || has_failed(); };
  Outcome outcome;
  if (!is_known()) {
    const Clock::time_point begin = Clock::now();
    changed_.wait(lock, is_known);
    outcome.wait_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  if (has_failed()) outcome.failure = failure_;
  return outcome;
}

void ReadAhead::release(std::uint64_t step) {
  {
    const std::lock_guard lock(mutex_);
    ++slot(step).releases;
  }
  changed_.notify_all();
}

void ReadAhead::load(const InputPart& part, std::uint64_t step) {
  // The slot stays as it is until this rank releases it, so no lock is needed.
  const Slot& source = slot(step);
  if (source.step != step || source.unread != 0) {
    throw VerificationError("step " + std::to_string(step) + " loads input '" + part.name + "' without waiting for it");
  }
  reader_.load(source.batch, part);
}

}  // namespace strata::host
