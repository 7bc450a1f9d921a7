#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/device.hpp"

namespace strata::devices {

/// The types that a device's kernels compute with.
struct DeviceTypes {
  std::vector<DType> reals;
  std::vector<DType> indices;
};

/// What a kernel takes and leaves, one letter for each operand and result; a last '*' repeats the letter before it.
///   t  a real type, the one that all operands with this letter have
///   r  any real type
///   f  f32; f64 where the kernel computes in f64, because that is the type of its first operand with t, f or r
///   i  an index, b i8, d f64, s f64 or real
/// A result with t or f may be wanted in another real type: it is converted after the kernel.
struct KernelSignature {
  std::string_view operands;
  std::string_view results;
  /// The kernel adds to its results by itself, where these have the types that the letters say.
  bool accumulates = false;
};

/// Why operands and results of an instance have types that the kernel doesn't take.
std::optional<std::string> type_mismatch(const KernelSignature& kernel, const OpInstance& op, const DeviceTypes& types);

/// What the kernel of an instance that fits it computes by itself: `op` where `is_wanted`; else its results without
/// what is there before and in the types that the letters say, for the device to convert or add.
struct NaturalInstance {
  OpInstance op;
  bool is_wanted = false;
};
NaturalInstance natural_instance(const KernelSignature& kernel, const OpInstance& op, const DeviceTypes& types);

}  // namespace strata::devices
