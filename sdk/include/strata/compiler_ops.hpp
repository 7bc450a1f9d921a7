#pragma once

/// \file
/// Ops that the host itself emits. It knows every other op only through its OpDefinition.

namespace strata::ops {

/// () -> x, all zeros.
inline constexpr const char* kFillZero = "fill_zero";
/// x -> y, where y += x.
inline constexpr const char* kAccumulate = "accumulate";
/// x, y, … -> x + y + …, all of one element type.
inline constexpr const char* kSum = "sum";
/// x -> x converted to the floating-point type of the attribute `dtype`.
inline constexpr const char* kCast = "cast";
/// x, y, … -> a·x + b·y + …, with the factors in the attributes `factor0`, `factor1`, … (weighted_sum()).
inline constexpr const char* kWeightedSum = "weighted_sum";
/// x -> the sum of the squares of its elements, a scalar in f64.
inline constexpr const char* kSumOfSquares = "sum_of_squares";
/// x -> for each group of parameters, the sum of the squares of its elements in x, in f64
/// (strata/internal/group_runs.hpp).
inline constexpr const char* kGroupSquares = "group_squares";
/// sum of squares, count -> the factor of every gradient, the global norm. The attribute `clip` is the largest norm.
inline constexpr const char* kGradientScale = "gradient_scale";
/// gradient, scale -> values + gradient / micro-batches, with the number of micro-batches in the attribute
/// `micro_batches` (ParameterRole::running_average). If the scale is not finite, the values stay as they are.
inline constexpr const char* kRunningAverageUpdate = "running_average_update";
/// gradient, scale -> values + step · sign(gradient), with the attribute `step` (Parameter::sign_step). If the scale is
/// not finite, the values stay as they are.
inline constexpr const char* kSignUpdate = "sign_update";
/// x -> x · StepContext::loss_scale.
inline constexpr const char* kScaleGradient = "scale_gradient";
/// x, y -> their product, of which the attribute `result` lists the dimensions. The rate of a device is measured by it.
inline constexpr const char* kLinear = "linear";

}  // namespace strata::ops
