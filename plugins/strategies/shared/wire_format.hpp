#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/internal/quantization.hpp"
#include "strata/lowering.hpp"

namespace wire {

/// `runs` runs of numbers in one buffer, one after another.
struct Numbers {
  strata::BufferId buffer = -1;
  strata::DType dtype = strata::DType::f32;
  std::int64_t runs = 0;
};

/// Encoded numbers for communication: one buffer of numbers, or one of integers and one of scales.
struct EncodedNumbers {
  struct Part {
    std::string name;
    strata::BufferId buffer = -1;
    strata::DType dtype = strata::DType::f32;
    /// Elements of the buffer per run.
    std::int64_t per_run = 0;
  };
  std::vector<Part> parts;
  std::int64_t runs = 0;
};

/// Emits instructions that encode, communicate and decode runs of `length` numbers. Without a quantisation numbers are
/// not encoded, but use the same collectives.
class WireFormat {
 public:
  WireFormat(strata::ConversionContext& context, std::optional<strata::BlockQuantization> quantization,
             std::int64_t length)
      : context_(context), quantization_(quantization), length_(length) {}

  /// Encodes numbers. The functions that return buffers add new ones, except that without a quantisation encode()
  /// returns the given buffer.
  [[nodiscard]] EncodedNumbers encode(const Numbers& numbers) const;
  /// Reorders runs from [outer, ranks of the axis] to [ranks, outer].
  [[nodiscard]] EncodedNumbers pack(const EncodedNumbers& encoded, const strata::Axis& axis) const;
  [[nodiscard]] EncodedNumbers all_to_all(const EncodedNumbers& encoded, const strata::Axis& axis) const;
  /// Gathers the runs of all ranks and decodes them to `into`.
  void all_gather(const EncodedNumbers& encoded, const std::vector<strata::Axis>& axes, const Numbers& into) const;
  /// Gathers the runs of all ranks, `runs` in all, without decoding them.
  [[nodiscard]] EncodedNumbers gather(const EncodedNumbers& encoded, const std::vector<strata::Axis>& axes,
                                      std::int64_t runs) const;
  /// Decodes the runs that several ranks have sent and writes their sum to `into`. `encoded` has the runs of one rank
  /// after those of another.
  void add_up(const EncodedNumbers& encoded, const Numbers& into) const;

  /// Adds a buffer for sums of runs. Its type is f32, unless the numbers are f64 or there is no quantisation.
  [[nodiscard]] Numbers add_sums(std::int64_t runs) const;

 private:
  using Part = EncodedNumbers::Part;

  [[nodiscard]] strata::DType sum_type() const;
  [[nodiscard]] Part add_part(const Part& like, std::int64_t runs, const std::string& step) const;
  void communicate(strata::CollectiveKind kind, const std::vector<strata::Axis>& axes, const Part& from,
                   strata::BufferId into) const;
  /// An op on runs. The runs of `sources` ranks follow one another.
  [[nodiscard]] strata::Compute op(const std::string& name, std::int64_t sources, std::int64_t runs) const;
  void emit(strata::Compute work, std::vector<strata::BufferId> inputs, std::vector<strata::BufferId> outputs) const;
  void dequantize(const EncodedNumbers& encoded, const Numbers& into) const;

  strata::ConversionContext& context_;
  std::optional<strata::BlockQuantization> quantization_;
  std::int64_t length_;
};

}  // namespace wire
