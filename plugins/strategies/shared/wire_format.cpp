#include "shared/wire_format.hpp"

#include <utility>

namespace wire {

using namespace strata;

namespace {

// Dimensions of the encoded buffers.
const Dim kSources = "source";
const Dim kRuns = "run";
const Dim kNumbers = "number";
const Dim kBytes = "byte";
const Dim kBlocks = "block";

}  // namespace

EncodedNumbers WireFormat::encode(const Numbers& numbers) const {
  if (!quantization_) return {{{"numbers", numbers.buffer, numbers.dtype, length_}}, numbers.runs};
  const Part integers = add_part({"integers", -1, DType::i8, quantization_->bytes(length_)}, numbers.runs, "quantised");
  const Part scales = add_part({"scales", -1, sum_type(), quantization_->scales(length_)}, numbers.runs, "quantised");
  Compute quantize = op("quantize_blocks", 1, numbers.runs);
  quantize.operand_dims = {{kRuns, kNumbers}};
  quantize.result_dims = {{kRuns, kBytes}, {kRuns, kBlocks}};
  emit(std::move(quantize), {numbers.buffer}, {integers.buffer, scales.buffer});
  return {{integers, scales}, numbers.runs};
}

EncodedNumbers WireFormat::pack(const EncodedNumbers& encoded, const Axis& axis) const {
  EncodedNumbers packed{{}, encoded.runs};
  const int ranks = context_.mesh().size(axis);
  for (const Part& part : encoded.parts) {
    packed.parts.push_back(add_part(part, encoded.runs, "packed for " + axis));
    context_.emit({.name = context_.label() + " " + part.name + " packed for " + axis,
                   .work = Copy{.kind = Copy::Kind::pack,
                                .outer = encoded.runs / ranks,
                                .size = ranks,
                                .inner = part.per_run,
                                .axis = {axis, Distribution::block}},
                   .inputs = {part.buffer},
                   .outputs = {packed.parts.back().buffer}});
  }
  return packed;
}

EncodedNumbers WireFormat::all_to_all(const EncodedNumbers& encoded, const Axis& axis) const {
  EncodedNumbers exchanged{{}, encoded.runs};
  for (const Part& part : encoded.parts) {
    exchanged.parts.push_back(add_part(part, encoded.runs, "exchanged over " + axis));
    communicate(CollectiveKind::all_to_all, {axis}, part, exchanged.parts.back().buffer);
  }
  return exchanged;
}

void WireFormat::all_gather(const EncodedNumbers& encoded, const std::vector<Axis>& axes, const Numbers& into) const {
  if (!quantization_) return communicate(CollectiveKind::all_gather, axes, encoded.parts.front(), into.buffer);
  dequantize(gather(encoded, axes, into.runs), into);
}

EncodedNumbers WireFormat::gather(const EncodedNumbers& encoded, const std::vector<Axis>& axes,
                                  std::int64_t runs) const {
  EncodedNumbers gathered{{}, runs};
  for (const Part& part : encoded.parts) {
    gathered.parts.push_back(add_part(part, runs, "gathered"));
    communicate(CollectiveKind::all_gather, axes, part, gathered.parts.back().buffer);
  }
  return gathered;
}

void WireFormat::add_up(const EncodedNumbers& encoded, const Numbers& into) const {
  if (quantization_) return dequantize(encoded, into);
  Compute sum = op("reduce_sum", encoded.runs / into.runs, into.runs);
  sum.attributes.set("result", join({kRuns, kNumbers}));
  sum.operand_dims = {{kSources, kRuns, kNumbers}};
  sum.result_dims = {{kRuns, kNumbers}};
  emit(std::move(sum), {encoded.parts.front().buffer}, {into.buffer});
}

void WireFormat::dequantize(const EncodedNumbers& encoded, const Numbers& into) const {
  Compute dequantize = op("dequantize_blocks", encoded.runs / into.runs, into.runs);
  dequantize.attributes.set("result", join({kRuns, kNumbers}));
  if (into.dtype != sum_type()) dequantize.attributes.set("dtype", std::string(to_string(into.dtype)));
  std::vector<BufferId> inputs;
  for (const Part& part : encoded.parts) inputs.push_back(part.buffer);
  dequantize.operand_dims = {{kSources, kRuns, kBytes}, {kSources, kRuns, kBlocks}};
  dequantize.result_dims = {{kRuns, kNumbers}};
  emit(std::move(dequantize), std::move(inputs), {into.buffer});
}

Numbers WireFormat::add_sums(std::int64_t runs) const {
  return {context_.add_flat(context_.label() + " sums", sum_type(), runs * length_), sum_type(), runs};
}

DType WireFormat::sum_type() const {
  const DType type = context_.planned().dtype;
  return type == DType::f64 || !quantization_ ? type : DType::f32;
}

WireFormat::Part WireFormat::add_part(const Part& like, std::int64_t runs, const std::string& step) const {
  Part part = like;
  part.buffer = context_.add_flat(context_.label() + " " + part.name + " " + step, part.dtype, runs * part.per_run);
  return part;
}

void WireFormat::communicate(CollectiveKind kind, const std::vector<Axis>& axes, const Part& from,
                             BufferId into) const {
  const std::string name =
      context_.label() + " " + from.name + " " + std::string(to_string(kind)) + " " + join(axes, "+");
  context_.emit({.name = name,
                 .work = Collective{.kind = kind, .axes = axes, .id = context_.communication_id(name)},
                 .inputs = {from.buffer},
                 .outputs = {into}});
}

Compute WireFormat::op(const std::string& name, std::int64_t sources, std::int64_t runs) const {
  Compute work{.op = name};
  work.iteration = {{kSources, sources, {}, false}, {kRuns, runs, {}, false}, {kNumbers, length_, {}, false}};
  if (!quantization_) return work;
  work.iteration.push_back({kBytes, quantization_->bytes(length_), {}, false});
  work.iteration.push_back({kBlocks, quantization_->scales(length_), {}, false});
  quantization_->add_to(work.attributes);
  return work;
}

void WireFormat::emit(Compute work, std::vector<BufferId> inputs, std::vector<BufferId> outputs) const {
  context_.emit(
      {.name = context_.label(), .work = std::move(work), .inputs = std::move(inputs), .outputs = std::move(outputs)});
}

}  // namespace wire
