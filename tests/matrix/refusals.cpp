#include "matrix/refusals.hpp"

#include <cctype>

namespace strata::testing {
namespace {

bool contains_in_order(const std::string& text, const std::vector<std::string>& pieces) {
  std::size_t at = 0;
  for (const std::string& piece : pieces) {
    at = text.find(piece, at);
    if (at == std::string::npos) return false;
    at += piece.size();
  }
  return true;
}

/// True if the message begins with a place such as "SOURCE:12:3: KEY: ".
bool has_place(const std::string& source, const std::string& message) {
  return message.starts_with(source + ":") && message.size() > source.size() + 1 &&
         std::isdigit(static_cast<unsigned char>(message[source.size() + 1])) != 0;
}

}  // namespace

const std::vector<Refusal>& known_refusals() {
  static const std::vector<Refusal> kRefusals = {
      {"two owners of the storage",
       {"strategy ", " decides on the storage of parameter '", "', and so does strategy "},
       "A parameter and its optimizer states lie in one place: dealt to all ranks (zero), or kept by one "
       "(dataparallel), not both."},
      {"two lowerings of a node",
       {"strategy ", " decides on how node '", "' is lowered, and so does strategy "},
       "Each would have the keys travel around its own ring. A ring around both is one axis with more ranks."},
      {"an axis without work",
       {"strategy ", " adds mesh axis '", ", which shards nothing"},
       "No dimension that the axis could shard is divisible by it: its ranks would do the same work."},
      {"more chunks than blocks",
       {"strategy.", ".size: found ", "accepted: at most ", " chunks in all, the number of blocks"},
       "Each stage needs a block to do."},
      {"micro-batches that interleaving can't group",
       {"strategy.", ".schedule: \"interleaved\" found ", "accepted: a multiple of "},
       "The interleaved schedule moves micro-batches through the chunks in groups of as many as there are stages "
       "(Narayanan et al., SC 2021)."},
      {"chunks that a schedule hasn't",
       {"strategy.", ".virtual_stages: found ", " with schedule "},
       "Only the interleaved schedule has a free number of chunks on a stage."},
      {"a group of blocks without its policy",
       {"strategy.", ".every: found ", " beside policy = "},
       "The other policies do not group blocks: the option would be ignored."},
      {"fewer inner steps than fragments",
       {"strategy.", ".steps: found ", " with fragments = "},
       "Each fragment takes its outer step in another of the inner steps, and with overlap in two."},
      {"a secondary partition without one to gather",
       {"strategy.", ".hierarchical_partition: found ", " with stage "},
       "Below stage 3 parameters are not sharded, so that there is nothing of which to keep a second shard."},
      {"offloaded parameters that aren't sharded",
       {"strategy.", ".offload_param: found ", " with stage "},
       "Below stage 3 the whole model is on the device at all times, so that there is no moment at which a block's "
       "parameters could be elsewhere."},
      {"quantised gathers of values that are trained",
       {"strategy.", ".quantized_weights: found ", " with stage "},
       "Below stage 3 what is gathered replaces the values that are trained: rounding would undo small updates."},
      {"experts of a model without experts",
       {"strategy.", ".size: the model has no dimension 'expert'"},
       "The axis would only shard samples, which ddp and zero do."},
      {"statistics of samples of ranks that are apart",
       {"strategy ", " owns mesh axis '", "' follows statistics of the samples of all ranks"},
       "A replica would take a part of the sums for those of all samples."},
      {"a rule that its axis doesn't divide",
       {"strategy.", ".rules: found \"", ", whose dimension '", "accepted: dimensions whose size is a multiple of "},
       "A rule for few ops that does nothing would not be noticed."},
      {"a secondary partition that doesn't divide",
       {"strategy.", ".hierarchical_partition: found ", "accepted: a divisor of size"},
       "Nodes of unequal numbers of ranks."}};
  return kRefusals;
}

const Refusal* find_refusal(const std::string& source, const std::string& message) {
  if (!has_place(source, message)) return nullptr;
  for (const Refusal& refusal : known_refusals()) {
    if (contains_in_order(message, refusal.message)) return &refusal;
  }
  return nullptr;
}

}  // namespace strata::testing
