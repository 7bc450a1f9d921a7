#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <span>
#include <thread>

#include "conformance/check.hpp"
#include "conformance/subject.hpp"
#include "runtime/element.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::int64_t kMostSamples = 48;
constexpr std::size_t kGuard = 64;

/// The dataset, opened as a run opens it, and the sizes that model and data fix together.
struct OpenData {
  explicit OpenData(Subject& subject) : setup(prepare(subject.configuration(), subject.plugins())), source(open()) {
    sizes = setup.model_sizes;
    for (const auto& [dim, size] : source.sizes()) sizes[dim] = size;
    std::int64_t validation = source.samples(DataSplit::validation);
    for (std::int64_t i = 0; i < std::min(source.samples(DataSplit::training), kMostSamples); ++i) {
      keys.push_back({DataSplit::training, 0, setup.seed(), i});
    }
    for (std::int64_t i = 0; i < std::min(validation, kMostSamples); ++i) {
      keys.push_back({DataSplit::validation, 0, setup.seed(), i});
    }
  }

  RunSetup setup;
  DataSource source;
  DimSizes sizes;
  /// The first samples of both splits.
  std::vector<SampleKey> keys;

  [[nodiscard]] std::int64_t elements(const DatasetInput& input) const {
    return element_count(shape_of(input.dims, sizes));
  }
  /// True if the model of the run can read the input: all of its dimensions have sizes.
  [[nodiscard]] bool is_readable(const DatasetInput& input) const {
    Dims dims = input.dims;
    if (!input.indexes.empty()) dims.push_back(input.indexes);
    return std::ranges::all_of(dims, [this](const Dim& dim) { return sizes.contains(dim); });
  }

 private:
  DataSource open() {
    setup.configuration.run.eval_every = 0;
    return setup.open_data();
  }
};

/// The inputs of one sample, with a guard after each.
class Sample {
 public:
  /// `filler`: the bytes before the sample is read, also in the guards.
  Sample(const OpenData& data, bool per_sample, std::byte filler) : filler_(filler) {
    for (const DatasetInput& input : data.source.inputs()) {
      const bool is_wanted = input.per_sample == per_sample && data.is_readable(input);
      const std::size_t bytes = is_wanted ? static_cast<std::size_t>(data.elements(input)) * size_of(input.dtype) : 0;
      buffers_.emplace_back(is_wanted ? bytes + kGuard : 0, filler);
    }
  }

  [[nodiscard]] std::vector<void*> destinations() {
    std::vector<void*> pointers;
    for (Bytes& buffer : buffers_) pointers.push_back(buffer.empty() ? nullptr : buffer.data());
    return pointers;
  }
  /// The values of an input, without its guard. Empty if it was not wanted.
  [[nodiscard]] std::span<const std::byte> values(std::size_t input) const {
    const std::span<const std::byte> buffer = buffers_[input];
    return buffer.empty() ? buffer : buffer.first(buffer.size() - kGuard);
  }
  [[nodiscard]] bool has_sound_guards() const {
    return std::ranges::all_of(buffers_, [this](const Bytes& buffer) {
      return buffer.empty() ||
             std::all_of(buffer.end() - kGuard, buffer.end(), [this](std::byte each) { return each == filler_; });
    });
  }
  /// All values in one text.
  [[nodiscard]] Bytes all() const {
    Bytes joined;
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const std::span<const std::byte> part = values(i);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    return joined;
  }

 private:
  std::byte filler_;
  std::vector<Bytes> buffers_;
};

Bytes read_sample(const OpenData& data, const SampleKey& key) {
  Sample sample(data, true, std::byte{0});
  data.source.read(key, sample.destinations());
  return sample.all();
}

std::vector<Bytes> read_samples(const OpenData& data) {
  std::vector<Bytes> samples;
  for (const SampleKey& key : data.keys) samples.push_back(read_sample(data, key));
  return samples;
}

std::string sample_name(const SampleKey& key) {
  return std::string(key.split == DataSplit::training ? "training" : "validation") + " sample " +
         std::to_string(key.index);
}

void require_values(const OpenData& data, std::size_t index, std::span<const std::byte> bytes,
                    const std::string& place) {
  const DatasetInput& input = data.source.inputs()[index];
  const std::string what = place + ", input '" + input.name + "': found ";
  for (std::int64_t i = 0; i < data.elements(input); ++i) {
    const double value = load_element(input.dtype, bytes.data(), i);
    if (!std::isfinite(value)) throw CheckFailed(what + std::to_string(value) + "; accepted: finite numbers");
    if (input.indexes.empty() || input.dtype != DType::i32) continue;
    const double least = input.is_target ? -1 : 0;
    if (value >= least && value < static_cast<double>(data.sizes.at(input.indexes))) continue;
    throw CheckFailed(what + std::to_string(static_cast<std::int64_t>(value)) +
                      "; accepted: " + std::to_string(static_cast<std::int64_t>(least)) + " to " +
                      std::to_string(data.sizes.at(input.indexes) - 1));
  }
}

/// Reads into memory with two different contents: equal results have been written everywhere, and nowhere else.
void require_written(const OpenData& data, bool per_sample, const SampleKey& key, const std::string& place) {
  Sample first(data, per_sample, std::byte{0x55});
  Sample second(data, per_sample, std::byte{0xAA});
  for (Sample* sample : {&first, &second}) {
    if (per_sample) {
      data.source.read(key, sample->destinations());
    } else {
      data.source.read_common(sample->destinations());
    }
    if (!sample->has_sound_guards()) throw CheckFailed(place + ": it writes behind the memory of an input");
  }
  for (std::size_t i = 0; i < data.source.inputs().size(); ++i) {
    const std::span<const std::byte> values = first.values(i);
    if (values.empty()) continue;
    if (!std::ranges::equal(values, second.values(i))) {
      throw CheckFailed(place + ", input '" + data.source.inputs()[i].name + "': it does not write every element");
    }
    require_values(data, i, values, place);
  }
}

/// Word options that name files, with their present values.
std::vector<std::string> path_options(const Options& options) {
  std::vector<std::string> names;
  for (const auto& [name, value] : options.values()) {
    const auto* word = std::get_if<std::string>(&value);
    if (word != nullptr && std::filesystem::exists(*word)) names.push_back(name);
  }
  return names;
}

std::string check_dataset_opening(Subject& subject) {
  const OpenData data(subject);
  if (data.source.samples(DataSplit::training) < 1) throw CheckFailed("it has no sample for training");
  if (data.source.fingerprint().empty()) throw CheckFailed("its fingerprint is empty");
  return data.source.description() + "; " + std::to_string(data.source.samples(DataSplit::training)) +
         " samples for training, " + std::to_string(data.source.samples(DataSplit::validation)) + " for validation";
}

std::string check_dataset_inputs(Subject& subject) {
  const OpenData data(subject);
  for (const SampleKey& key : data.keys) require_written(data, true, key, sample_name(key));
  const auto& inputs = data.source.inputs();
  const bool has_common = std::ranges::any_of(inputs, [](const DatasetInput& input) { return !input.per_sample; });
  if (has_common) require_written(data, false, {}, "inputs of all samples");
  return std::to_string(data.keys.size()) + " samples";
}

std::string check_dataset_repetition(Subject& subject) {
  const OpenData data(subject);
  const OpenData again(subject);
  for (SampleKey key : data.keys) {
    for (const std::uint64_t epoch : {0, 1}) {
      if (key.split == DataSplit::validation && epoch > 0) continue;
      key.epoch = epoch;
      const Bytes first = read_sample(data, key);
      if (read_sample(data, key) != first) throw CheckFailed(sample_name(key) + " differs when it is read again");
      if (read_sample(again, key) != first)
        throw CheckFailed(sample_name(key) + " differs when the data is opened again");
    }
  }
  return std::to_string(data.keys.size()) + " samples";
}

std::string check_dataset_order(Subject& subject) {
  const OpenData data(subject);
  const std::vector<Bytes> forwards = read_samples(data);
  for (std::size_t i = data.keys.size(); i-- > 0;) {
    if (read_sample(data, data.keys[i]) != forwards[i]) {
      throw CheckFailed(sample_name(data.keys[i]) + " differs when samples are read in another order");
    }
  }
  return std::to_string(data.keys.size()) + " samples";
}

std::string check_dataset_threads(Subject& subject) {
  const OpenData data(subject);
  const std::vector<Bytes> expected = read_samples(data);
  std::vector<std::string> faults(2);
  const auto work = [&](std::size_t thread) {
    try {
      for (int round = 0; round < 4; ++round) {
        for (std::size_t i = 0; i < data.keys.size(); ++i) {
          const std::size_t at = thread == 0 ? i : data.keys.size() - 1 - i;
          if (read_sample(data, data.keys[at]) != expected[at]) {
            faults[thread] = sample_name(data.keys[at]) + " differs when two threads read";
          }
        }
      }
    } catch (...) {
      faults[thread] = current_exception_text();
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  for (const std::string& fault : faults) {
    if (!fault.empty()) throw CheckFailed(fault);
  }
  return "";
}

std::string check_dataset_wanted_inputs(Subject& subject) {
  const OpenData data(subject);
  const SampleKey& key = data.keys.front();
  Sample whole(data, true, std::byte{0});
  data.source.read(key, whole.destinations());
  int inputs = 0;
  for (std::size_t i = 0; i < data.source.inputs().size(); ++i) {
    if (!data.source.inputs()[i].per_sample || !data.is_readable(data.source.inputs()[i])) continue;
    Sample part(data, true, std::byte{0});
    std::vector<void*> destinations = part.destinations();
    for (std::size_t other = 0; other < destinations.size(); ++other) {
      if (other != i) destinations[other] = nullptr;
    }
    data.source.read(key, destinations);
    if (!std::ranges::equal(part.values(i), whole.values(i))) {
      throw CheckFailed("input '" + data.source.inputs()[i].name + "' differs when it is read alone");
    }
    ++inputs;
  }
  return std::to_string(inputs) + " inputs";
}

std::string check_dataset_fingerprint(Subject& subject) {
  const OpenData first(subject);
  const OpenData second(subject);
  const std::string before = first.source.fingerprint();
  for (const SampleKey& key : first.keys) static_cast<void>(read_sample(first, key));
  for (const std::string& found : {first.source.fingerprint(), second.source.fingerprint()}) {
    if (found != before) throw CheckFailed("the fingerprint of the same data is '" + before + "' and '" + found + "'");
  }
  return before;
}

std::string check_dataset_splits(Subject& subject) {
  const OpenData data(subject);
  std::set<Bytes> training;
  std::int64_t validation = 0;
  std::int64_t common = 0;
  for (const SampleKey& key : data.keys) {
    Bytes bytes = read_sample(data, key);
    if (key.split == DataSplit::training) {
      training.insert(std::move(bytes));
    } else {
      ++validation;
      common += training.contains(bytes) ? 1 : 0;
    }
  }
  if (validation == 0) throw CheckSkipped("the data has no sample for validation");
  if (common == validation) {
    throw CheckFailed("each of the first " + std::to_string(validation) +
                      " validation samples is one of the first training samples");
  }
  return std::to_string(validation - common) + " of " + std::to_string(validation) + " validation samples are new";
}

std::string check_dataset_bad_paths(Subject& subject) {
  const OpenData data(subject);
  const TemporaryFolder folder;
  const std::filesystem::path empty = folder.path() / "empty";
  std::ofstream(empty).flush();
  const Options options = data.setup.plugins.dataset.options;
  const std::vector<std::string> names = path_options(options);
  if (names.empty()) throw CheckSkipped("no option names one file");
  for (const std::string& name : names) {
    for (const std::filesystem::path& path : {folder.path() / "absent", folder.path(), empty}) {
      Options bad = options;
      bad.set(name, path.string());
      const std::string what = name + " = '" + path.filename().string() + "': ";
      try {
        static_cast<void>(subject.factory<DatasetFactory>().open(bad, {data.setup.model_sizes, false}));
      } catch (const ConfigurationError&) {
        continue;
      } catch (...) {
        throw CheckFailed(what + "found " + current_exception_text() + "; accepted: an OptionError");
      }
      if (path != empty) throw CheckFailed(what + "it is opened, although there is no such file");
    }
  }
  return join(names, ", ");
}

}  // namespace

std::vector<Check> dataset_checks() {
  return {
      {"D01", "The data opens, has samples for training, and has a fingerprint.", "No run can start.",
       check_dataset_opening},
      {"D02", "Inputs are as declared: every element is written, within its range, and nothing else.",
       "Models read rubbish, or memory is destroyed.", check_dataset_inputs},
      {"D03", "A sample is the same when it is read again, also after the data was opened again.",
       "Ranks and resumed runs train on other data.", check_dataset_repetition},
      {"D04", "A sample does not depend on the order in which samples are read.", "Layouts train on other data.",
       check_dataset_order},
      {"D05", "Two threads that read at once get the same samples.", "Reading ahead gives other data.",
       check_dataset_threads},
      {"D06", "An input that is read alone has the same values.", "A model that ignores an input gets other data.",
       check_dataset_wanted_inputs},
      {"D07", "The fingerprint of the same data is the same.",
       "A checkpoint is refused, although its data is unchanged.", check_dataset_fingerprint},
      {"D08", "Validation samples are not those of training.", "The validation loss is that of training.",
       check_dataset_splits},
      {"D09", "A path that is absent, a folder or an empty file is refused by an OptionError or opens soundly.",
       "A typing mistake ends in a crash.", check_dataset_bad_paths},
  };
}

}  // namespace strata::host
