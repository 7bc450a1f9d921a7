#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::host {

/// \file
/// Records of TensorBoard's event files: a serialised message `Event` of TensorFlow, framed as a TFRecord.

/// A value under a name, such as "loss/train". TensorBoard groups names by their part before the slash.
struct Scalar {
  std::string tag;
  double value = 0;
};

/// The first record of a file. `seconds`: since 1970, as in all events.
[[nodiscard]] std::string version_record(double seconds);
/// Says that the process started, or went back: TensorBoard drops earlier records of `step` and of later steps.
[[nodiscard]] std::string start_record(double seconds, std::uint64_t step);
/// Values of a step. TensorBoard keeps them in f32.
[[nodiscard]] std::string scalar_record(double seconds, std::uint64_t step, const std::vector<Scalar>& scalars);

/// The CRC-32C (Castagnoli) of `bytes`.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

}  // namespace strata::host
