#include "verify/rank_result.hpp"

#include <cstring>

#include "strata/error.hpp"

namespace strata::host {
namespace {

class Encoder {
 public:
  void add(std::int64_t value) { append(&value, sizeof value); }
  void add(const std::string& text) {
    add(static_cast<std::int64_t>(text.size()));
    append(text.data(), text.size());
  }
  void add(const std::vector<double>& values) {
    add(static_cast<std::int64_t>(values.size()));
    append(values.data(), values.size() * sizeof(double));
  }
  void add(const WholeTensors& tensors) {
    add(static_cast<std::int64_t>(tensors.size()));
    for (const auto& [name, values] : tensors) {
      add(name);
      add(values);
    }
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void append(const void* data, std::size_t bytes) { text_.append(static_cast<const char*>(data), bytes); }

  std::string text_;
};

class Decoder {
 public:
  explicit Decoder(const std::string& text) : text_(text) {}

  std::int64_t number() {
    std::int64_t value = 0;
    take(&value, sizeof value);
    return value;
  }
  std::string text() {
    std::string value(static_cast<std::size_t>(number()), '\0');
    take(value.data(), value.size());
    return value;
  }
  std::vector<double> values() {
    std::vector<double> result(static_cast<std::size_t>(number()));
    take(result.data(), result.size() * sizeof(double));
    return result;
  }
  WholeTensors tensors() {
    WholeTensors result;
    for (std::int64_t left = number(); left > 0; --left) {
      std::string name = text();
      result[std::move(name)] = values();
    }
    return result;
  }

 private:
  void take(void* to, std::size_t bytes) {
    if (bytes > text_.size() - position_) throw RuntimeError("the results of another rank are cut off");
    if (bytes > 0) std::memcpy(to, text_.data() + position_, bytes);
    position_ += bytes;
  }

  const std::string& text_;
  std::size_t position_ = 0;
};

}  // namespace

std::string RankResult::encode() const {
  Encoder encoder;
  encoder.add(losses);
  encoder.add(gradient_norms);
  encoder.add(evaluations);
  encoder.add(parameters);
  encoder.add(averages);
  encoder.add(planned_peak_bytes);
  encoder.add(arena_peak_bytes);
  return encoder.text();
}

RankResult RankResult::decode(const std::string& text) {
  Decoder decoder(text);
  RankResult result;
  result.losses = decoder.values();
  result.gradient_norms = decoder.values();
  result.evaluations = decoder.values();
  result.parameters = decoder.tensors();
  result.averages = decoder.tensors();
  result.planned_peak_bytes = decoder.number();
  result.arena_peak_bytes = decoder.number();
  return result;
}

}  // namespace strata::host
