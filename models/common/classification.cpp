#include "common/classification.hpp"

#include "common/layers.hpp"

namespace strata::models {

OptionSpecification label_smoothing_option() {
  return option::number("label_smoothing", 0.0, 0, 0.99,
                        "Part of a label that is spread over all classes in the loss of training (Szegedy et al., "
                        "\"Rethinking the Inception Architecture for Computer Vision\", 2015).");
}

void classify(GraphBuilder& b, Value features, const std::string& name, const Dim& width, double label_smoothing) {
  const Value logits =
      affine(b, features, name, {.weight = {width, "classes"}, .bias = {"classes"}, .result = {"batch", "classes"}});
  b.output("logits", logits);
  // Evaluation compares models by the plain loss.
  Attributes attributes;
  if (b.mode() == GraphMode::training && label_smoothing > 0) attributes.set("label_smoothing", label_smoothing);
  const Value labels = b.input("labels", {"batch"});
  const std::vector<Value> results = b.op("cross_entropy", {logits, labels}, "loss", attributes);
  b.graph().sinks.push_back({Sink::Kind::loss, {}, results[0]});
  b.graph().sinks.push_back({Sink::Kind::count, {}, results[2]});
  b.add_metric("accuracy", b.op("count_correct", {logits, labels}, "accuracy")[0]);
}

}  // namespace strata::models
