"""Compares BERT and T5 with transformers on small random models: logits, losses and gradients with padding, and files."""

from small_models import *

import torch
import transformers
from torch.nn.functional import cross_entropy

BERT = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=CONTEXT, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
T5 = dict(vocab_size=VOCAB, d_model=32, d_kv=16, d_ff=48, num_layers=2, num_decoder_layers=3, num_heads=4, dropout_rate=0.0,
          relative_attention_num_buckets=8, relative_attention_max_distance=16, decoder_start_token_id=0)
MODELS = {
    "bert_masked": (transformers.BertForMaskedLM, transformers.BertConfig(**BERT)),
    "bert_classes": (transformers.BertForSequenceClassification, transformers.BertConfig(**BERT, num_labels=3)),
    "bert_relu": (transformers.BertForSequenceClassification, transformers.BertConfig(**BERT, hidden_act="relu")),
    "t5_1.1": (transformers.T5ForConditionalGeneration,
               transformers.T5Config(**T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    "t5_untied": (transformers.T5ForConditionalGeneration,
                  transformers.T5Config(**T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    "t5_1.0": (transformers.T5ForConditionalGeneration, transformers.T5Config(**T5, feed_forward_proj="relu")),
}
TARGETS = 12
FIRST, LAST, MASK = 1, 2, 3
MASK_64 = (1 << 64) - 1

CONFIGURATION = """
[run]
steps = 1
seed = 11
output = "{output}"
[model]
from = "{start}"
{model}
[data]
{data}
validation = 0.0
[batch]
global = {sequences}
[optimizer]
plugin = "sgd"
lr = {lr}
weight_decay = 0.0
clip = 0.0
{more}
"""


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK_64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK_64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK_64
    return x ^ (x >> 31)


def stream_key(seed, name, step):
    base = 0xCBF29CE484222325
    for byte in name.encode():
        base = ((base ^ byte) * 0x100000001B3) & MASK_64
    return mix(mix(base ^ mix(seed)) ^ step)


def philox(key, block):
    counter, keys = [block & 0xFFFFFFFF, block >> 32, 0, 0], [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(second >> 32) ^ counter[1] ^ keys[0], second & 0xFFFFFFFF,
                   (first >> 32) ^ counter[3] ^ keys[1], first & 0xFFFFFFFF]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def documents(folder, name, longest, shift=0):
    """Writes documents of several lengths, which end with the token LAST. Returns them."""
    generator = numpy.random.default_rng(5 + shift)
    lists = [generator.integers(4, VOCAB, int(length)).tolist() for length in (longest, longest // 2, 3)]
    numpy.array([token for tokens in lists for token in tokens + [LAST]], "uint16").tofile(folder / name)
    return lists


def padded(lists, length, padding):
    return torch.tensor([tokens + [padding] * (length - len(tokens)) for tokens in lists])


def masked_batch(folder):
    """A file of one window for each sequence, masked as the dataset does it."""
    windows = numpy.random.default_rng(5).integers(4, VOCAB, (SEQUENCES, CONTEXT - 1))
    for index, window in enumerate(windows):
        window.astype("uint16").tofile(folder / f"data{index}")
    inputs, targets = [], []
    key = stream_key(11, "masked tokens", 0)
    for index in range(SEQUENCES):
        window = windows[index, :-1].tolist()
        shown, answers = [FIRST], [-100]
        for i, token in enumerate(window):
            chosen, how, which, _ = philox(key, index * CONTEXT + 1 + i)
            is_chosen = chosen < int(0.3 * 2**32)
            answers.append(token if is_chosen else -100)
            if is_chosen and how < int(0.8 * 2**32):
                token = MASK
            elif is_chosen and how < int(0.9 * 2**32):
                token = which * VOCAB >> 32
            shown.append(token)
        inputs.append(shown + [LAST])
        targets.append(answers + [-100])
    paths = json.dumps([str(folder / f"data{index}") for index in range(SEQUENCES)])
    data = f'plugin = "masked"\npaths = {paths}\nmask_token = {MASK}\nfirst_token = {FIRST}\n' \
           f'last_token = {LAST}\nshare = 0.3'
    return data, dict(input_ids=torch.tensor(inputs)), torch.tensor(targets)


def sentence_batch(folder):
    """Pairs of sentences of several lengths."""
    first, second = documents(folder, "first", 10), documents(folder, "second", 12, shift=1)
    numpy.array([1, 0, 1], "uint16").tofile(folder / "labels")
    tokens = [[FIRST] + a + [LAST] + b + [LAST] for a, b in zip(first, second)]
    segments = [[0] * (len(a) + 2) + [1] * (len(b) + 1) for a, b in zip(first, second)]
    data = f'plugin = "sentences"\npath = "{folder}/first"\nsecond_path = "{folder}/second"\nlabels = "{folder}/labels"\n' \
           f'document_end = {LAST}\nfirst_token = {FIRST}\nlast_token = {LAST}'
    mask = padded([[1] * len(each) for each in tokens], CONTEXT, 0)
    return data, dict(input_ids=padded(tokens, CONTEXT, 0), token_type_ids=padded(segments, CONTEXT, 0),
                      attention_mask=mask), torch.tensor([1, 0, 1])


def pair_batch(folder):
    """Sources and targets of several lengths."""
    sources = [tokens + [1] for tokens in documents(folder, "source", CONTEXT - 5)]
    targets = [tokens + [1] for tokens in documents(folder, "target", TARGETS - 2, shift=1)]
    data = f'plugin = "pairs"\npath = "{folder}/source"\ntarget_path = "{folder}/target"\ndocument_end = {LAST}'
    labels = padded(targets, TARGETS, -100)
    decoder = padded([[0] + tokens[:-1] for tokens in targets], TARGETS, 0)
    mask = padded([[1] * len(each) for each in sources], CONTEXT, 0)
    return data, dict(input_ids=padded(sources, CONTEXT, 0), attention_mask=mask, decoder_input_ids=decoder), labels


def batch_of(folder, name):
    if name.startswith("t5"):
        return pair_batch(folder)
    return masked_batch(folder) if name == "bert_masked" else sentence_batch(folder)


def loss_of(model, inputs, targets):
    logits = model(**inputs).logits
    return cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=-100)


def sizes_of(name):
    return f"context = {CONTEXT}\ntarget_context = {TARGETS}" if name.startswith("t5") else ""


def train(folder, name, data, more=""):
    """One step of plain gradient descent. Returns the run's folder and the loss."""
    file = folder / "run.toml"
    output = folder / "run"
    file.write_text(CONFIGURATION.format(output=output, start=folder / "original", model=sizes_of(name), data=data,
                                         sequences=SEQUENCES, lr=LEARNING_RATE, more=more))
    strata("train", file, "--log-json", folder / "log.json")
    events = [json.loads(line) for line in (folder / "log.json").read_text().splitlines()]
    return output, [event["loss"] for event in events if "event" not in event][0]


def compare_step(folder, name, model, data, inputs, targets):
    loss = loss_of(model, inputs, targets)
    model.zero_grad()
    loss.backward()
    run, found = train(folder, name, data)
    check(abs(found - loss.item()) < 1e-5, f"{name}: loss {found}, transformers {loss.item()}")
    strata("export", run, folder / "stepped")
    before, after = tensors_of(folder / "original"), tensors_of(folder / "stepped")
    worst, of = 0, ""
    for key, parameter in model.named_parameters():
        # A pooler without a classifier has no gradient, and a key bias has none but for rounding.
        if parameter.grad is None or key.endswith("key.bias"):
            continue
        gradient = parameter.grad.double()
        scale = max(gradient.abs().max().item(), 1e-4)
        difference = (before[key].double() - after[key].double()) / LEARNING_RATE - gradient
        if difference.abs().max().item() / scale > worst:
            worst, of = difference.abs().max().item() / scale, key
    check(worst < 1e-5, f"{name}: gradients of {of} differ by {worst}")
    return worst


def compare_logits(folder, name, model, inputs):
    """The logits of the first sample, which has no padding in the decoder."""
    names = [("tokens", "input_ids"), ("segments", "token_type_ids"), ("mask", "attention_mask"),
             ("target_tokens", "decoder_input_ids")]
    given = {own: inputs[theirs][0].numpy().astype("int32") for own, theirs in names if theirs in inputs}
    given.setdefault("mask", numpy.ones(CONTEXT, "int32"))
    given["target_mask"] = numpy.ones(TARGETS, "int32")
    for own, values in given.items():
        values.tofile(folder / f"input.{own}")
    data = "pairs" if name.startswith("t5") else "masked" if name == "bert_masked" else "sentences"
    required = {"pairs": ["path", "target_path"], "masked": ["path"], "sentences": ["path", "labels"]}[data]
    overrides = [f"data.plugin={data}"] + [f"data.{key}=none" for key in required]
    overrides += [f"data.mask_token={MASK}"] if data == "masked" else []
    overrides += [f"data.first_token={FIRST}", f"data.last_token={LAST}"] if data == "sentences" else []
    overrides += ["model." + line.replace(" ", "") for line in sizes_of(name).splitlines()]
    subprocess.run([LOGITS, folder / "imported", folder / "input", folder / "logits", *overrides], check=True)
    with torch.no_grad():
        expected = model(**{key: value[:1] for key, value in inputs.items()}).logits[0]
    found = torch.from_numpy(numpy.fromfile(folder / "logits", "float32")).reshape(expected.shape)
    difference = (found - expected).abs().max().item()
    check(difference < 1e-5 * max(1, expected.abs().max().item()), f"{name}: logits differ by {difference}")
    return difference


def compare_answers(folder, name, model, data):
    """Greedy answers to sources of several lengths. `data`: the table of the configuration."""
    overrides = [f"data.{line.replace(' = ', '=')}" for line in data.splitlines()]
    overrides += ["model." + line.replace(" ", "") for line in sizes_of(name).splitlines()]
    prompts = [[5, 9, 4], [30, 7, 7, 21, 6, 18, 3]]
    asked = [part for prompt in prompts for part in ("--prompt", " ".join(map(str, prompt)))]
    sizes = [part for override in overrides for part in ("--set", override)]
    # The second text gets a place of its own, the place of the first, or no cache.
    for options in ([], ["--batch", 1], ["--no-cache"]):
        lines = strata("generate", folder / "imported", *asked, *sizes, "--tokens", TARGETS - 1, "--temperature", 0,
                       "--json", *options)
        for prompt, line in zip(prompts, lines.splitlines(), strict=True):
            expected = model.generate(torch.tensor([prompt + [1]]), max_new_tokens=TARGETS - 1, do_sample=False,
                                      use_cache=False)[0, 1:]
            found = list(map(int, json.loads(line)["text"].split()))
            check(found == expected.tolist(),
                  f"{name} {options} answers {prompt} by {found}, transformers by {expected.tolist()}")
    refusal = strata("generate", folder / "imported", *sizes, "--prompt", " ".join(["5"] * CONTEXT), "--no-cache", code=2)
    check(f"accepted: at most {CONTEXT}, the encoder's context" in refusal, f"{name}: {refusal}")


def test_models(folder):
    for name, (kind, config) in MODELS.items():
        own = folder / name
        own.mkdir()
        model = random_model(kind, config)
        if name == "t5_untied":
            model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.shared.weight))
            model.config.tie_word_embeddings = False
        model.save_pretrained(own / "original")
        data, inputs, targets = batch_of(own, name)
        strata("import", own / "original", own / "imported")
        logits = compare_logits(own, name, model, inputs)
        if name.startswith("t5"):
            compare_answers(own, name, model, data)
        gradients = compare_step(own, name, model, data, inputs, targets)
        strata("export", own / "imported", own / "exported")
        compare_files(name, own / "original", own / "exported")
        again = kind.from_pretrained(own / "exported", attn_implementation="eager").eval()
        with torch.no_grad():
            equal = loss_of(again, inputs, targets).item() == loss_of(model, inputs, targets).item()
        check(equal, f"{name}: the exported model's loss differs")
        print(f"{name}: logits {logits:.1e}, gradients {gradients:.1e}", flush=True)


run_tests(globals())
