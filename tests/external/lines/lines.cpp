/// A dataset whose samples are the lines of a text: the bytes of a line and its line break, cut to the model's "seq".
/// The rest of a shorter sample has no targets.

#include <algorithm>
#include <numeric>

#include "strata/data_file.hpp"
#include "strata/dataset.hpp"
#include "strata/error.hpp"

namespace {

using namespace strata;

/// Lines as the user asked for them.
struct Settings {
  std::string path;
  /// Every so many lines, one is for validation.
  std::int64_t validation_every = 10;
};

class Lines final : public Dataset {
 public:
  Lines(const Settings& settings, std::int64_t length) : file_(settings.path), length_(length) {
    std::string text(static_cast<std::size_t>(file_.bytes()), '\0');
    file_.read(0, file_.bytes(), text.data());
    std::int64_t number = 0;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
      const Line line{static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end - begin)};
      // A line of one byte has no target.
      if (line.bytes > 1) (++number % settings.validation_every == 0 ? validation_ : training_).push_back(line);
      begin = end;
    }
  }

  [[nodiscard]] DimSizes sizes() const override { return {{"seq", length_}, {"vocab", 256}}; }
  [[nodiscard]] std::int64_t samples(DataSplit split) const override { return std::ssize(lines(split)); }

  void read(const SampleKey& key, std::span<void* const> destinations) const override {
    const Line& line = lines(key.split)[static_cast<std::size_t>(key.index)];
    std::vector<unsigned char> bytes(static_cast<std::size_t>(std::min(line.bytes, length_ + 1)));
    file_.read(line.begin, std::ssize(bytes), bytes.data());
    if (auto* tokens = static_cast<std::int32_t*>(destinations[0])) {
      std::fill(std::copy(bytes.begin(), bytes.end() - 1, tokens), tokens + length_, 0);
    }
    if (auto* targets = static_cast<std::int32_t*>(destinations[1])) {
      std::fill(std::copy(bytes.begin() + 1, bytes.end(), targets), targets + length_, -1);
    }
  }

  void read_common(std::span<void* const> destinations) const override {
    auto* positions = static_cast<std::int32_t*>(destinations[2]);
    std::iota(positions, positions + length_, 0);
  }

  [[nodiscard]] std::string fingerprint() const override { return strata::fingerprint({&file_, 1}); }
  [[nodiscard]] std::string description() const override {
    return std::to_string(training_.size() + validation_.size()) + " lines of '" + file_.path().string() + "'";
  }
  [[nodiscard]] std::optional<Vocabulary> vocabulary() const override { return Vocabulary{}; }

 private:
  struct Line {
    std::int64_t begin = 0;
    std::int64_t bytes = 0;
  };

  [[nodiscard]] const std::vector<Line>& lines(DataSplit split) const {
    return split == DataSplit::training ? training_ : validation_;
  }

  DataFile file_;
  std::int64_t length_;
  std::vector<Line> training_;
  std::vector<Line> validation_;
};

class LinesFactory final : public DatasetFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }

  [[nodiscard]] std::vector<DatasetInput> inputs(const Options& /*options*/) const override {
    return {{.name = "tokens", .dims = {"seq"}, .indexes = "vocab"},
            {.name = "targets", .dims = {"seq"}, .indexes = "vocab", .is_target = true},
            {.name = "positions", .dims = {"seq"}, .indexes = "seq", .per_sample = false}};
  }
  [[nodiscard]] DimSizes sizes(const Options& /*options*/) const override { return {{"vocab", 256}}; }
  [[nodiscard]] std::string unit(const Options& /*options*/) const override { return "token"; }

  [[nodiscard]] std::unique_ptr<Dataset> open(const Options& options, const DatasetRequest& request) const override {
    const auto length = request.sizes.find("seq");
    if (length == request.sizes.end()) throw ConfigurationError("the model fixes no size of 'seq'");
    try {
      return std::make_unique<Lines>(Settings{options.word("path"), options.integer("validation_every")},
                                     length->second);
    } catch (const ConfigurationError& error) {
      throw OptionError("path", error.what());
    }
  }

 private:
  OptionSchema schema_{
      {.name = "path", .type = OptionType::word, .documentation = "The text.", .role = OptionRole::training_data},
      {.name = "validation_every",
       .type = OptionType::integer,
       .default_value = 10,
       .documentation = "Of so many lines, one is kept for evaluation.",
       .minimum = 2}};
};

}  // namespace

STRATA_PLUGIN(dataset, "lines", "1.0.0", "MIT", "A text whose lines are the samples.", LinesFactory);
