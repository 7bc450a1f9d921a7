#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strata/export.hpp"
#include "strata/plugin.hpp"
#include "strata/tensor.hpp"
#include "strata/vocabulary.hpp"

/// \file
/// How to write a dataset. It names its inputs, opens its files, and reads single samples by their index. The host
/// decides on the order of samples, reads ahead, and gives each rank its part.

namespace strata {

/// One input that a dataset has for models. A model reads it by name, dimensions and type. Inputs of one name differ in
/// the number of their dimensions, "batch" included: positions of all samples, and positions of each sample. A model
/// reads at most one of them. The dimensions of an input that it does not read need no size.
struct DatasetInput {
  std::string name;
  /// Dimensions of the values of one sample, without "batch".
  Dims dims = {};
  /// i32 or f32. A model reads f32 values in the floating-point type of the run.
  DType dtype = DType::i32;
  /// For i32: the dimension whose indices the values are, such as "vocab" for tokens. They are at least 0 and below its
  /// size.
  Dim indexes = {};
  /// False if the values are the same for all samples, such as positions. Then the input has no dimension "batch".
  bool per_sample = true;
  /// True if the loss sums over the elements of this input. A value of -1 marks an element that the loss leaves out.
  /// Samples that only fill up the last batch of an evaluation have -1 everywhere.
  bool is_target = false;
};

enum class DataSplit : std::uint8_t { training, validation };

/// What a dataset is told when it is opened.
struct DatasetRequest {
  /// The sizes that the model's options fix, such as {"seq": 128}.
  DimSizes sizes = {};
  /// True if the run evaluates, so that the validation split needs a sample.
  bool validates = false;
};

/// The address of a sample.
struct SampleKey {
  DataSplit split = DataSplit::training;
  /// Training visits every index once per epoch, in an order that the host draws. Validation has epoch 0.
  std::uint64_t epoch = 0;
  /// The seed of the run. Random choices, such as augmentation, depend on seed, epoch and index only, so that every
  /// layout sees the same samples.
  std::uint64_t seed = 0;
  /// At least 0, below Dataset::samples().
  std::int64_t index = 0;
};

/// Data that is open. All functions are thread-safe.
class STRATA_API Dataset {
 public:
  virtual ~Dataset();
  /// The sizes that the data fixes, such as {"vocab": 256}. A dimension in the shape of an input must have the same
  /// size in the model. A dimension that values index may be larger in the model.
  [[nodiscard]] virtual DimSizes sizes() const = 0;
  /// Number of samples of a split, the same in every epoch.
  [[nodiscard]] virtual std::int64_t samples(DataSplit split) const = 0;
  /// Reads a sample. `destinations`: memory for the values of each input, row-major, in the order of
  /// DatasetFactory::inputs(). It is null for inputs that are not wanted and for those that are the same for all
  /// samples. \throws RuntimeError that says which file, where, what was found and what was expected.
  virtual void read(const SampleKey& key, std::span<void* const> destinations) const = 0;
  /// Writes the values of the inputs that are the same for all samples. `destinations`: as for read(). Default: there
  /// are none.
  virtual void read_common(std::span<void* const> destinations) const;
  /// Text that changes if the content changes, such as fingerprint() of data_file.hpp. Checkpoints contain it.
  [[nodiscard]] virtual std::string fingerprint() const = 0;
  /// The data in a few words, for messages: "1115394 tokens of 'input.txt'".
  [[nodiscard]] virtual std::string description() const = 0;
  /// How tokens stand for text. Default: the data is no text.
  [[nodiscard]] virtual std::optional<Vocabulary> vocabulary() const;
};

/// The factory of a dataset plugin.
class STRATA_API DatasetFactory : public PluginFactory {
 public:
  ~DatasetFactory() override;
  /// The inputs of a dataset with these options. It reads no file, because `strata verify` needs none. \throws
  /// OptionError if options contradict each other.
  [[nodiscard]] virtual std::vector<DatasetInput> inputs(const Options& options) const = 0;
  /// The sizes that are known without a file. Default: none.
  [[nodiscard]] virtual DimSizes sizes(const Options& options) const;
  /// What a loss sums over, in the singular, for messages: "token". Default: "sample".
  [[nodiscard]] virtual std::string unit(const Options& options) const;
  /// Opens the data. \throws OptionError that names the option if a file is missing or damaged, or if a split has no
  /// sample.
  [[nodiscard]] virtual std::unique_ptr<Dataset> open(const Options& options, const DatasetRequest& request) const = 0;
};

}  // namespace strata
