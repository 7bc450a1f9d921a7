#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/lowering.hpp"
#include "strata/quantization.hpp"

namespace zero {

/// Runs of numbers, one after another.
struct Numbers {
  strata::BufferId buffer = -1;
  strata::DType dtype = strata::DType::f32;
  std::int64_t runs = 0;
};

/// The same as they travel: in one buffer, or in one of integers and one of their scales.
struct EncodedNumbers {
  struct Part {
    std::string name;
    strata::BufferId buffer = -1;
    strata::DType dtype = strata::DType::f32;
    /// Elements of the buffer for one run.
    std::int64_t per_run = 0;
  };
  std::vector<Part> parts;
  std::int64_t runs = 0;
};

/// Builds the instructions that bring runs of `length` numbers to other ranks. Without a quantisation numbers travel as
/// they are, through the same collectives.
class WireFormat {
 public:
  WireFormat(strata::ConversionContext& context, std::optional<strata::BlockQuantization> quantization,
             std::int64_t length)
      : context_(context), quantization_(quantization), length_(length) {}

  /// What comes out of encode() and all other functions that give something is in buffers of its own, unless numbers
  /// travel as they are.
  [[nodiscard]] EncodedNumbers encode(const Numbers& numbers) const;
  /// Runs that lie as [outer, ranks of the axis] become [ranks, outer].
  [[nodiscard]] EncodedNumbers pack(const EncodedNumbers& encoded, const strata::Axis& axis) const;
  [[nodiscard]] EncodedNumbers all_to_all(const EncodedNumbers& encoded, const strata::Axis& axis) const;
  /// Brings the runs of all ranks together in `into`.
  void all_gather(const EncodedNumbers& encoded, const std::vector<strata::Axis>& axes, const Numbers& into) const;
  /// The runs of `encoded` are those of `into`, from several ranks in turn: writes their sum.
  void add_up(const EncodedNumbers& encoded, const Numbers& into) const;

  /// A buffer for sums of runs: f32, unless numbers are f64 or travel as they are.
  [[nodiscard]] Numbers add_sums(std::int64_t runs) const;

 private:
  using Part = EncodedNumbers::Part;

  [[nodiscard]] strata::DType sum_type() const;
  [[nodiscard]] Part add_part(const Part& like, std::int64_t runs, const std::string& step) const;
  void communicate(strata::CollectiveKind kind, const std::vector<strata::Axis>& axes, const Part& from,
                   strata::BufferId into) const;
  /// An op whose dimensions are those of runs; `sources` ranks' runs lie one after another.
  [[nodiscard]] strata::Instruction op(const std::string& name, std::int64_t sources, std::int64_t runs) const;
  void dequantize(const EncodedNumbers& encoded, const Numbers& into) const;

  strata::ConversionContext& context_;
  std::optional<strata::BlockQuantization> quantization_;
  std::int64_t length_;
};

}  // namespace zero
