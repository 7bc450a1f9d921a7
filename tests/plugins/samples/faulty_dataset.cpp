#include <algorithm>
#include <stdexcept>

#include "endings.hpp"
#include "strata/dataset.hpp"
#include "strata/error.hpp"

namespace {

using namespace strata;

constexpr std::int64_t kVocab = 16;

/// Tokens that are all alike, with the fault that a test selects.
class FaultyDataset final : public Dataset {
 public:
  FaultyDataset(std::string fault, std::int64_t length) : fault_(std::move(fault)), length_(length) {}
  ~FaultyDataset() override { endings::end_hook(fault_, "destructor"); }
  FaultyDataset(const FaultyDataset&) = delete;
  FaultyDataset& operator=(const FaultyDataset&) = delete;

  [[nodiscard]] DimSizes sizes() const override {
    if (fault_ == "sizes throws") throw 42;
    if (fault_ == "size zero") return {{"vocab", 0}};
    if (fault_ == "another seq") return {{"seq", length_ + 1}, {"vocab", kVocab}};
    if (fault_ == "no vocab") return {};
    return {{"vocab", kVocab}};
  }
  [[nodiscard]] std::int64_t samples(DataSplit /*split*/) const override {
    if (fault_ == "samples throws") throw std::out_of_range("too far");
    return fault_ == "no samples" ? 0 : 100;
  }
  void read(const SampleKey& key, std::span<void* const> destinations) const override {
    endings::end_hook(fault_, "read");
    if (fault_ == "read throws") throw std::out_of_range("too far");
    if (fault_ == "read fails later" && key.epoch > 0) throw RuntimeError("'disk': found nothing; expected data");
    for (const std::size_t input : {0, 1}) {
      if (destinations[input] == nullptr) continue;
      std::fill_n(static_cast<std::int32_t*>(destinations[input]), length_, fault_ == "large token" ? kVocab : 3);
    }
  }
  [[nodiscard]] std::string fingerprint() const override {
    if (fault_ == "fingerprint throws") throw 42;
    return "0";
  }
  [[nodiscard]] std::string description() const override { return "100 samples"; }

 private:
  std::string fault_;
  std::int64_t length_;
};

class Factory final : public DatasetFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::vector<DatasetInput> inputs(const Options& options) const override {
    const std::string& fault = options.word("fault");
    if (fault == "inputs throws") throw 42;
    std::vector<DatasetInput> inputs{{.name = "tokens", .dims = {"seq"}, .indexes = "vocab"},
                                     {.name = "targets", .dims = {"seq"}, .indexes = "vocab", .is_target = true}};
    if (fault == "wide input") inputs[0].dtype = DType::f64;
    if (fault == "batch input") inputs[0].dims = {"batch", "seq"};
    if (fault == "twice the same") inputs.push_back(inputs[1]);
    if (fault == "unread") inputs.push_back({.name = "weather", .dims = {"station"}, .indexes = "kind"});
    if (fault == "float input") inputs[0].dtype = DType::f32;
    return inputs;
  }
  [[nodiscard]] std::unique_ptr<Dataset> open(const Options& options, const DatasetRequest& request) const override {
    const std::string& fault = options.word("fault");
    endings::end_hook(fault, "open");
    if (fault == "nothing") return nullptr;
    if (fault == "open throws") throw 42;
    return std::make_unique<FaultyDataset>(fault, request.sizes.at("seq"));
  }

 private:
  OptionSchema schema_ = {
      {.name = "fault", .type = OptionType::word, .default_value = "none", .documentation = "The fault."}};
};

}  // namespace

STRATA_PLUGIN(dataset, "faulty_dataset", "1.0.0", "Apache-2.0", "A dataset with the fault that it is asked for.",
              Factory);
