#include "runtime/copy_plan.hpp"

namespace strata::host {
namespace {

/// Merges rows that are contiguous on both sides into one.
RowCopy merged(RowCopy copy) {
  if (copy.width != copy.destination_pitch || copy.width != copy.source_pitch) return copy;
  const std::int64_t bytes = copy.width * copy.rows;
  return {copy.destination_offset, bytes, copy.source_offset, bytes, bytes, 1};
}

RowCopy reversed(const RowCopy& copy) {
  return {copy.source_offset,     copy.source_pitch, copy.destination_offset,
          copy.destination_pitch, copy.width,        copy.rows};
}

}  // namespace

std::vector<RowCopy> plan_copy(const Copy& description, DType dtype, int count, int index) {
  const std::int64_t unit = description.inner * static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t piece_size = description.size / count;
  const bool slices = description.kind == Copy::Kind::slice;
  std::vector<RowCopy> copies;
  for (int piece = slices ? index : 0; piece < (slices ? index + 1 : count); ++piece) {
    const std::int64_t piece_begin = slices ? 0 : piece * description.outer * piece_size * unit;
    for (const IndexSegment& run : split_dimension(description.size, count, piece, description.axis.distribution)) {
      RowCopy copy{piece_begin + run.local_begin * unit,
                   piece_size * unit,
                   run.global_begin * unit,
                   description.size * unit,
                   run.length * unit,
                   description.outer};
      if (description.kind == Copy::Kind::unpack) copy = reversed(copy);
      copies.push_back(merged(copy));
    }
  }
  return copies;
}

void launch_copy(Device& device, const std::vector<RowCopy>& copies, std::byte* destination, const std::byte* source) {
  for (const RowCopy& copy : copies) {
    if (copy.rows == 1) {
      device.copy(StreamKind::compute, destination + copy.destination_offset, source + copy.source_offset, copy.width);
    } else {
      device.copy_rows(StreamKind::compute, destination + copy.destination_offset, copy.destination_pitch,
                       source + copy.source_offset, copy.source_pitch, copy.width, copy.rows);
    }
  }
}

}  // namespace strata::host
