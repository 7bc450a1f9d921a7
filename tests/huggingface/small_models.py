"""Small random models of transformers, and the commands of Strata on them."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import numpy
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

transformers.utils.logging.disable_progress_bar()
STRATA, LOGITS = sys.argv[1:3]
CONTEXT = 32
VOCAB = 64
SEQUENCES = 3
# The step of plain gradient descent is so large that rounding of the old values does not matter to the difference.
LEARNING_RATE = 1e4

SIZES = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=CONTEXT, tie_word_embeddings=False, rms_norm_eps=1e-5,
             bos_token_id=1, eos_token_id=2,
             # The embedding of a padding token would have no gradient in transformers.
             pad_token_id=None)
GROUPED = dict(SIZES, num_key_value_heads=2)
TIED = dict(GROUPED, tie_word_embeddings=True)
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
LONGROPE = dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.5, 2.0, 3.0],
                long_factor=[1.0, 2.0, 4.0, 9.0])
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=8)
GPT2 = dict(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=CONTEXT, bos_token_id=1, eos_token_id=2,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def llama(**changes):
    return transformers.LlamaForCausalLM, transformers.LlamaConfig(**{**GROUPED, **changes})


def rotary(parameters):
    """The argument of a config with these rotary positions, in the words of the installed transformers."""
    if int(transformers.__version__.split(".")[0]) >= 5:
        return dict(rope_parameters=parameters)
    scaling = {key: value for key, value in parameters.items() if key != "rope_theta"}
    return dict(rope_theta=parameters["rope_theta"], rope_scaling=scaling)


# Name: class and config.
MODELS = {
    "gpt2": (transformers.GPT2LMHeadModel, transformers.GPT2Config(**GPT2)),
    "llama2": llama(num_key_value_heads=4),
    "llama3": llama(**rotary(LLAMA3)),
    "llama_biases": llama(attention_bias=True, mlp_bias=True, head_dim=16),
    "linear": llama(**rotary(dict(rope_type="linear", rope_theta=10000.0, factor=2.0))),
    "yarn": llama(**rotary(YARN)),
    "smollm2": llama(tie_word_embeddings=True),
    "mistral": (transformers.MistralForCausalLM, transformers.MistralConfig(**GROUPED, head_dim=8, sliding_window=5)),
    "mistral_full": (transformers.MistralForCausalLM, transformers.MistralConfig(**GROUPED, sliding_window=None)),
    "qwen2": (transformers.Qwen2ForCausalLM, transformers.Qwen2Config(**{**GROUPED, "tie_word_embeddings": True})),
    "qwen2_window": (transformers.Qwen2ForCausalLM,
                     transformers.Qwen2Config(**GROUPED, use_sliding_window=True, sliding_window=5,
                                              max_window_layers=1)),
    "qwen3": (transformers.Qwen3ForCausalLM, transformers.Qwen3Config(**GROUPED, head_dim=16)),
    "ministral": (transformers.MinistralForCausalLM,
                  transformers.MinistralConfig(**GROUPED, head_dim=8, sliding_window=5)),
    "ministral_listed": (transformers.MinistralForCausalLM,
                         transformers.MinistralConfig(**GROUPED, head_dim=16, sliding_window=5,
                                                      layer_types=["full_attention", "sliding_attention"])),
    "smollm3": (transformers.SmolLM3ForCausalLM,
                transformers.SmolLM3Config(**{**GROUPED, "num_hidden_layers": 3},
                                           no_rope_layer_interval=2)),
    "seed_oss": (transformers.SeedOssForCausalLM,
                 transformers.SeedOssConfig(**GROUPED, head_dim=16, attention_bias=True, attention_out_bias=False,
                                            attention_dropout=0.0, residual_dropout=0.0)),
    "granite": (transformers.GraniteForCausalLM,
                transformers.GraniteConfig(**GROUPED, embedding_multiplier=3.0, logits_scaling=2.5,
                                           residual_multiplier=0.3, attention_multiplier=0.2)),
    "olmo2": (transformers.Olmo2ForCausalLM, transformers.Olmo2Config(**GROUPED)),
    "olmo2_full": (transformers.Olmo2ForCausalLM,
                   transformers.Olmo2Config(**{**SIZES, "attention_bias": True})),
    "phi3": (transformers.Phi3ForCausalLM, transformers.Phi3Config(**GROUPED)),
    "phi3_window": (transformers.Phi3ForCausalLM,
                    transformers.Phi3Config(**SIZES, sliding_window=5)),
    "phi3_longrope": (transformers.Phi3ForCausalLM,
                      transformers.Phi3Config(**GROUPED, original_max_position_embeddings=16, **rotary(LONGROPE))),
    "phi3_longrope_short": (transformers.Phi3ForCausalLM,
                            transformers.Phi3Config(**GROUPED, original_max_position_embeddings=32,
                                                    **rotary(dict(LONGROPE, factor=4.0)))),
    # A part of the features turns.
    "phi3_partial": (transformers.Phi3ForCausalLM, transformers.Phi3Config(**GROUPED, partial_rotary_factor=0.5)),
    "phi4_mini": (transformers.Phi3ForCausalLM,
                  transformers.Phi3Config(**TIED, original_max_position_embeddings=16,
                                          **rotary(dict(LONGROPE, short_factor=[1.0, 1.5, 2.0],
                                                        long_factor=[1.0, 2.0, 5.0], partial_rotary_factor=0.75)))),
    "gemma": (transformers.GemmaForCausalLM, transformers.GemmaConfig(**TIED, head_dim=16)),
    "gemma2": (transformers.Gemma2ForCausalLM,
               transformers.Gemma2Config(**TIED, head_dim=16, query_pre_attn_scalar=24, sliding_window=5,
                                         attn_logit_softcapping=1.5, final_logit_softcapping=2.0)),
    "gemma3": (transformers.Gemma3ForCausalLM,
               transformers.Gemma3TextConfig(**{**TIED, "num_hidden_layers": 3}, head_dim=16, query_pre_attn_scalar=24,
                                             sliding_window=5,
                                             layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                                             rope_parameters=dict(
                                                 full_attention=dict(rope_type="linear", rope_theta=1e6, factor=8.0),
                                                 sliding_attention=dict(rope_type="default", rope_theta=100.0)))),
    "mixtral": (transformers.MixtralForCausalLM,
                transformers.MixtralConfig(**GROUPED, num_local_experts=4, num_experts_per_tok=2)),
    "mixtral_window": (transformers.MixtralForCausalLM,
                       transformers.MixtralConfig(**GROUPED, head_dim=16, num_local_experts=3, num_experts_per_tok=2,
                                                  sliding_window=5)),
    "olmoe": (transformers.OlmoeForCausalLM,
              transformers.OlmoeConfig(**GROUPED, num_experts=6, num_experts_per_tok=3)),
    "qwen3_moe": (transformers.Qwen3MoeForCausalLM,
                  transformers.Qwen3MoeConfig(**GROUPED, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=20,
                                              norm_topk_prob=True)),
}

failures = []


def check(holds, text):
    if not holds:
        failures.append(text)
        print("FAILED", text, flush=True)


def strata(*arguments, code=0):
    run = subprocess.run([STRATA, *map(str, arguments)], capture_output=True, text=True)
    check(run.returncode == code, f"strata {arguments}: exit code {run.returncode}, expected {code}: {run.stderr}")
    return run.stdout + run.stderr


def tensors_of(folder):
    tensors = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            tensors |= {name: file.get_tensor(name) for name in file.keys()}
    return tensors


def random_model(kind, config):
    torch.manual_seed(7)
    config._attn_implementation = "eager"
    model = kind(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            # Biases of 0 and gains of 1 would hide mistakes.
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def write_data(folder, context=CONTEXT):
    """Writes one token file for each sequence of a batch. Each file has a single window. Returns the sequences."""
    data = torch.from_numpy(numpy.random.default_rng(5).integers(0, VOCAB, (SEQUENCES, context + 1)))
    for index, sequence in enumerate(data.numpy()):
        sequence.astype("uint16").tofile(folder / f"data{index}")
    return data


def loss_of(model, data):
    logits = model(input_ids=data[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), data[:, 1:].reshape(-1))


CONFIGURATION = """
[run]
steps = {steps}
[model]
from = "{start}"
{model}
[data]
plugin = "tokens"
paths = {data}
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


def write_configuration(folder, name, start, more="", model="", steps=1, lr=0.1):
    data = json.dumps([str(folder / f"data{index}") for index in range(SEQUENCES)])
    file = folder / f"{name}.toml"
    file.write_text(CONFIGURATION.format(start=start, data=data, sequences=SEQUENCES, lr=lr, more=more, model=model,
                                         steps=steps))
    return file


def train(folder, name, start, *, arguments=(), **settings):
    """Trains from `start`. Returns the run's folder and the losses of its steps."""
    file = write_configuration(folder, name, start, **settings)
    log = folder / f"{name}.json"
    strata("train", file, "--set", f"run.output={folder / name}", "--log-json", log, *arguments)
    events = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return folder / name, [event["loss"] for event in events if "event" not in event]


def compare_files(name, original, exported):
    before, after = tensors_of(original), tensors_of(exported)
    check(before.keys() == after.keys(), f"{name}: other names: {before.keys() ^ after.keys()}")
    for key in before.keys() & after.keys():
        equal = before[key].dtype == after[key].dtype and torch.equal(before[key], after[key])
        check(equal, f"{name}: exported {key} differs")


def saved(folder, name="llama3", **changes):
    """A folder of transformers with the model `name`. Returns the model."""
    kind, config = MODELS[name]
    model = random_model(kind, config)
    model.save_pretrained(folder, **changes)
    return model


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def edit_config(folder, without=(), **changes):
    config = config_of(folder) | changes
    for field in without:
        del config[field]
    (folder / "config.json").write_text(json.dumps(config))


def replace_tensors(folder, change):
    tensors = tensors_of(folder)
    change(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def exported(folder, run, name, *arguments):
    strata("export", run, folder / name, *arguments)
    return folder / name


def compare_logits(folder, name, model):
    sequence = numpy.random.default_rng(3).integers(0, VOCAB, CONTEXT).astype("int32")
    sequence.tofile(folder / "sequence")
    subprocess.run([LOGITS, folder / "imported", folder / "sequence", folder / "logits"], check=True)
    found = torch.from_numpy(numpy.fromfile(folder / "logits", "float32")).reshape(CONTEXT, -1)
    with torch.no_grad():
        expected = model(input_ids=torch.from_numpy(sequence.astype("int64"))[None]).logits[0]
    difference = (found - expected).abs().max().item()
    check(difference < 1e-5, f"{name}: logits differ by {difference}")
    return difference


def run_tests(names):
    """Runs every function test_… with a folder of its own, and ends the program."""
    with tempfile.TemporaryDirectory() as temporary:
        for name, test in list(names.items()):
            if name.startswith("test_"):
                folder = Path(temporary) / name
                folder.mkdir()
                test(folder)
                print(name, flush=True)
    sys.exit(1 if failures else 0)
