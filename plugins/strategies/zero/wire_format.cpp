#include "wire_format.hpp"

#include <utility>

namespace zero {

using namespace strata;

namespace {

// The dimensions of buffers on the way.
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
  Instruction quantize = op("quantize_blocks", 1, numbers.runs);
  quantize.inputs = {numbers.buffer};
  quantize.outputs = {integers.buffer, scales.buffer};
  quantize.operand_dims = {{kRuns, kNumbers}};
  quantize.result_dims = {{kRuns, kBytes}, {kRuns, kBlocks}};
  context_.emit(std::move(quantize));
  return {{integers, scales}, numbers.runs};
}

EncodedNumbers WireFormat::pack(const EncodedNumbers& encoded, const Axis& axis) const {
  EncodedNumbers packed{{}, encoded.runs};
  const int ranks = context_.mesh().size(axis);
  for (const Part& part : encoded.parts) {
    packed.parts.push_back(add_part(part, encoded.runs, "packed for " + axis));
    Instruction copy;
    copy.kind = InstructionKind::copy;
    copy.name = context_.label() + " " + part.name + " packed for " + axis;
    copy.inputs = {part.buffer};
    copy.outputs = {packed.parts.back().buffer};
    copy.copy = {CopyDescription::Kind::pack, encoded.runs / ranks, ranks, part.per_run, {axis, Distribution::block}};
    context_.emit(std::move(copy));
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
  EncodedNumbers gathered{{}, into.runs};
  for (const Part& part : encoded.parts) {
    gathered.parts.push_back(add_part(part, into.runs, "gathered"));
    communicate(CollectiveKind::all_gather, axes, part, gathered.parts.back().buffer);
  }
  dequantize(gathered, into);
}

void WireFormat::add_up(const EncodedNumbers& encoded, const Numbers& into) const {
  if (quantization_) return dequantize(encoded, into);
  Instruction sum = op("reduce_sum", encoded.runs / into.runs, into.runs);
  sum.attributes.set("result", join({kRuns, kNumbers}));
  sum.inputs = {encoded.parts.front().buffer};
  sum.outputs = {into.buffer};
  sum.operand_dims = {{kSources, kRuns, kNumbers}};
  sum.result_dims = {{kRuns, kNumbers}};
  context_.emit(std::move(sum));
}

void WireFormat::dequantize(const EncodedNumbers& encoded, const Numbers& into) const {
  Instruction dequantize = op("dequantize_blocks", encoded.runs / into.runs, into.runs);
  dequantize.attributes.set("result", join({kRuns, kNumbers}));
  if (into.dtype != sum_type()) dequantize.attributes.set("dtype", std::string(to_string(into.dtype)));
  for (const Part& part : encoded.parts) dequantize.inputs.push_back(part.buffer);
  dequantize.outputs = {into.buffer};
  dequantize.operand_dims = {{kSources, kRuns, kBytes}, {kSources, kRuns, kBlocks}};
  dequantize.result_dims = {{kRuns, kNumbers}};
  context_.emit(std::move(dequantize));
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
  Instruction instruction;
  instruction.kind = InstructionKind::collective;
  instruction.collective = kind;
  instruction.name = context_.label() + " " + from.name + " " + std::string(to_string(kind)) + " " + join(axes, "+");
  instruction.inputs = {from.buffer};
  instruction.outputs = {into};
  instruction.axes = axes;
  instruction.id = context_.communication_id(instruction.name);
  context_.emit(std::move(instruction));
}

Instruction WireFormat::op(const std::string& name, std::int64_t sources, std::int64_t runs) const {
  Instruction instruction;
  instruction.kind = InstructionKind::compute;
  instruction.op = name;
  instruction.name = context_.label();
  instruction.iteration = {{kSources, sources, {}, false}, {kRuns, runs, {}, false}, {kNumbers, length_, {}, false}};
  if (!quantization_) return instruction;
  instruction.iteration.push_back({kBytes, quantization_->bytes(length_), {}, false});
  instruction.iteration.push_back({kBlocks, quantization_->scales(length_), {}, false});
  quantization_->add_to(instruction.attributes);
  return instruction;
}

}  // namespace zero
