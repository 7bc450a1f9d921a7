"""Compares Strata with transformers on small random models of every family that Strata imports.

Each model is written by transformers' own class and imported by Strata. Its logits, its loss and all its gradients
must equal those of transformers. It is exported again and must have the same bytes and load into transformers.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

# It sets what transformers reads when it is imported.
from small_models import *

import numpy
import peft
import torch
import transformers

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


def compare_gradients(folder, name, model, data):
    loss = loss_of(model, data)
    model.zero_grad()
    loss.backward()
    run, losses = train(folder, "gradients", folder / "imported", lr=LEARNING_RATE)
    check(abs(losses[0] - loss.item()) < 1e-5, f"{name}: loss {losses[0]}, transformers {loss.item()}")
    strata("export", run, folder / "stepped")
    before, after = tensors_of(folder / "original"), tensors_of(folder / "stepped")
    gradients = {key: parameter.grad for key, parameter in model.named_parameters()}
    worst = 0
    for key, gradient in gradients.items():
        found = (before[key].double() - after[key].double()) / LEARNING_RATE
        scale = max(gradient.abs().max().item(), 1e-4)
        worst = max(worst, (found - gradient.double()).abs().max().item() / scale)
    check(worst < 1e-5, f"{name}: gradients differ by {worst}")
    return worst


def compare_model(folder, name, kind, config):
    folder.mkdir()
    model = random_model(kind, config)
    model.save_pretrained(folder / "original")
    (folder / "original" / "tokenizer.json").write_text("{}")
    data = write_data(folder)
    strata("import", folder / "original", folder / "imported")
    logits = compare_logits(folder, name, model)
    gradients = compare_gradients(folder, name, model, data)
    strata("export", folder / "imported", folder / "exported")
    compare_files(name, folder / "original", folder / "exported")
    check((folder / "exported" / "tokenizer.json").read_text() == "{}", f"{name}: the tokenizer is lost")
    again = transformers.AutoModelForCausalLM.from_pretrained(folder / "exported", attn_implementation="eager").eval()
    check(type(again) is kind, f"{name}: exported as {type(again)}")
    check(config_of(folder / "original") == config_of(folder / "exported"), f"{name}: config.json differs")
    with torch.no_grad():
        check(loss_of(again, data).item() == loss_of(model, data).item(), f"{name}: the exported model's loss differs")
    print(f"{name}: logits {logits:.1e}, gradients {gradients:.1e}", flush=True)


def test_shards_in_bf16(folder):
    saved(folder / "f32")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "f32", dtype=torch.bfloat16)
    model.save_pretrained(folder / "original", max_shard_size="20KB")
    check(len(list((folder / "original").glob("*.safetensors"))) > 2, "transformers wrote no shards")
    strata("import", folder / "original", folder / "imported")
    strata("export", folder / "imported", folder / "exported", "--shard-size", "20KB")
    check((folder / "exported" / "model.safetensors.index.json").exists(), "there is no index")
    compare_files("shards", folder / "original", folder / "exported")
    again = transformers.AutoModelForCausalLM.from_pretrained(folder / "exported", dtype="auto")
    check(again.dtype == torch.bfloat16, f"shards: loaded as {again.dtype}")
    strata("export", folder / "imported", folder / "half", "--dtype", "f16")
    for key, tensor in tensors_of(folder / "half").items():
        check(torch.equal(tensor, model.state_dict()[key].half()), f"shards: {key} in f16 differs")


LAYOUTS = {
    "zero_tensor": '[[strategy]]\nplugin = "zero"\nsize = 3\nstage = 3\n[[strategy]]\nplugin = "tensor"\nsize = 2',
    "pipeline": '[[strategy]]\nplugin = "pipeline"\nsize = 2',
}


def test_start_on_layouts(folder):
    model = saved(folder / "original")
    (folder / "original" / "tokenizer.json").write_text("{}")
    data = write_data(folder)
    alone = train(folder, "alone", folder / "original", steps=2)
    check(abs(alone[1][0] - loss_of(model, data).item()) < 1e-5, "a folder of transformers gives another loss")
    expected = tensors_of(exported(folder, alone[0], "alone_exported"))
    for name, strategies in LAYOUTS.items():
        run, losses = train(folder, name, folder / "original", more=strategies, steps=2)
        check(max(abs(a - b) for a, b in zip(losses, alone[1])) < 1e-5, f"{name}: losses {losses}, {alone[1]}")
        found = tensors_of(exported(folder, run, name + "_exported"))
        check((folder / (name + "_exported") / "tokenizer.json").exists(), f"{name}: the tokenizer is lost")
        for key in expected:
            check(torch.allclose(found[key], expected[key], atol=1e-5), f"{name}: {key} differs")
        strata("verify", folder / f"{name}.toml")


def test_resuming_comes_first(folder):
    saved(folder / "original")
    write_data(folder)
    start = folder / "original"
    train(folder, "run", start, arguments=["--resume", "auto"])
    run, losses = train(folder, "run", start, steps=2, arguments=["--resume", "auto"])
    _, through = train(folder, "through", start, steps=2)
    check(losses == through, f"resumed: {losses}, without a break: {through}")
    # A checkpoint of a run is a start as well.
    _, again = train(folder, "again", run)
    check(again[0] < through[1], f"a start from a trained model has the loss {again[0]}")


LORA = """
[[strategy]]
plugin = "lora"
rank = 4
targets = ["*_proj.weight"]
"""


def test_adapters(folder):
    """Adapters are exported merged, or alone for PEFT. Both give the loss that Strata has with them."""
    model = saved(folder / "original")
    edit_config(folder / "original", _name_or_path="someone/base")
    data = write_data(folder)
    # The second update is the first that knows all gradients, since half of the factors begin at 0.
    run, _ = train(folder, "run", folder / "original", more=LORA, lr=10.0, steps=2)
    _, losses = train(folder, "longer", folder / "original", more=LORA, lr=10.0, steps=3)
    merged = transformers.AutoModelForCausalLM.from_pretrained(exported(folder, run, "merged"))
    before, loss = loss_of(model, data).item(), loss_of(merged, data).item()
    check(abs(loss - losses[2]) < 1e-5, f"merged adapters: loss {loss}, Strata {losses[2]}")
    check(abs(loss - before) > 1e-3, "the adapters learned nothing")
    exported(folder, run, "adapters", "--adapters")
    base = json.loads((folder / "adapters" / "adapter_config.json").read_text())["base_model_name_or_path"]
    check(base == "someone/base", f"adapters of the base {base}")
    alone = peft.PeftModel.from_pretrained(model, folder / "adapters").eval()
    loss = loss_of(alone, data).item()
    check(abs(loss - losses[2]) < 1e-5, f"adapters in PEFT: loss {loss}, Strata {losses[2]}")


def nf4():
    """The 4-bit NormalFloat by its definition: quantiles of the normal distribution on both sides of 0."""
    def quantiles(count):
        return torch.special.ndtri(torch.linspace(0.9677083, 0.5, count, dtype=torch.float64)[:-1])

    numbers = torch.cat([-quantiles(8), torch.zeros(1), quantiles(9)]).sort().values
    return numbers / numbers.max()


BASE_NUMBERS = {"nf4": nf4(), "int8": torch.arange(-127, 128).double() / 127}
BASE_BLOCK = 12


def rounded(tensor, base, along):
    """The matrix with each number replaced by the nearest that its block has in this base."""
    blocks = tensor.detach().double().movedim(along, -1).split(BASE_BLOCK, -1)
    scales = [block.abs().amax(-1, keepdim=True) for block in blocks]
    numbers = BASE_NUMBERS[base]
    nearest = [scale * numbers[(block / scale).unsqueeze(-1).sub(numbers).abs().argmin(-1)]
               for block, scale in zip(blocks, scales)]
    return torch.cat(nearest, -1).movedim(-1, along).float()


def test_coded_base(folder):
    """A base in 8 or 4 bits computes what the rounded model does, and so do its exports."""
    for base in BASE_NUMBERS:
        (folder / base).mkdir()
        data = write_data(folder / base)
        model = saved(folder / base / "original")
        for name, parameter in model.named_parameters():
            if name.endswith("_proj.weight"):
                # The blocks lie along the stream: the outputs of o_proj and down_proj, the inputs of all others.
                along = 0 if "o_proj" in name or "down_proj" in name else 1
                parameter.data = rounded(parameter, base, along)
        more = f'{LORA}base = "{base}"\nbase_block = {BASE_BLOCK}\nbase_targets = ["*_proj.weight"]\n'
        start = folder / base / "original"
        run, _ = train(folder / base, "run", start, more=more, lr=10.0, steps=2)
        _, losses = train(folder / base, "longer", start, more=more, lr=10.0, steps=3)
        check(abs(losses[0] - loss_of(model, data).item()) < 1e-5, f"{base}: loss {losses[0]}")
        merged = transformers.AutoModelForCausalLM.from_pretrained(exported(folder / base, run, "merged"))
        check(abs(loss_of(merged, data).item() - losses[2]) < 1e-5, f"{base}: merged {loss_of(merged, data)}, {losses}")
        exported(folder / base, run, "adapters", "--adapters")
        alone = peft.PeftModel.from_pretrained(model, folder / base / "adapters").eval()
        check(abs(loss_of(alone, data).item() - losses[2]) < 1e-5, f"{base}: PEFT {loss_of(alone, data)}, {losses}")
        strata("generate", run, "--prompt", "5 9 ", "--tokens", 2)
        # The codes are stored, so a second run begins from the same ones.
        _, again = train(folder / base, "again", run, more=more, lr=10.0)
        check(again[0] == losses[2], f"{base}: a start from codes has the loss {again[0]}, expected {losses[2]}")
        text = strata("train", write_configuration(folder / base, "whole", run), code=2)
        check("missing: 'model.layers.0.mlp.down_proj.weight'" in text, f"{base}: {text}")
        _, resumed = train(folder / base, "run", start, more=more, lr=10.0, steps=3, arguments=["--resume", "auto"])
        check(resumed == losses, f"{base}: resumed {resumed}, without a break {losses}")


def test_generated_tokens(folder):
    model = saved(folder / "original", "qwen3")
    strata("import", folder / "original", folder / "imported")
    prompt = [5, 9, 2, 33]
    text = strata("generate", folder / "imported", "--prompt", " ".join(map(str, prompt)) + " ", "--tokens", 12,
                  "--temperature", 0)
    expected = prompt
    for _ in range(12):
        expected = expected + [model(input_ids=torch.tensor([expected])).logits[0, -1].argmax().item()]
    check(text.split() == list(map(str, expected)), f"generated {text.split()}, transformers {expected}")


def test_average(folder):
    saved(folder / "original")
    write_data(folder)
    run, _ = train(folder, "run", folder / "original",
                   more="average = { decay = 0.5 }")
    before, after = tensors_of(folder / "original"), tensors_of(exported(folder, run, "after"))
    average = tensors_of(exported(folder, run, "average", "--average"))
    for key in before:
        check(torch.allclose(average[key], (before[key] + after[key]) / 2, atol=1e-6), f"average: {key} differs")


def test_published_gpt2(folder):
    """The published files of GPT-2 have no prefix, and buffers, which several versions wrote in different types."""
    saved(folder / "original", "gpt2")

    def publish(tensors):
        for key in list(tensors):
            tensors[key.removeprefix("transformer.")] = tensors.pop(key)
        tensors["h.0.attn.bias"] = torch.ones(1, 1, CONTEXT, CONTEXT)
        tensors["h.1.attn.bias"] = torch.ones(1, 1, CONTEXT, CONTEXT, dtype=torch.bool)
        tensors["h.1.attn.masked_bias"] = torch.ones(1, dtype=torch.uint8)

    replace_tensors(folder / "original", publish)
    strata("import", folder / "original", folder / "imported")
    strata("export", folder / "imported", folder / "exported")
    found = tensors_of(folder / "exported")
    for key, tensor in tensors_of(folder / "original").items():
        if not key.endswith((".attn.bias", ".masked_bias")):
            check(torch.equal(found["transformer." + key], tensor), f"{key} differs")


def test_names_of_other_savers(folder):
    """A base model is saved without "model.", and a tied one may have the output projection for its embedding."""
    def without_prefix(tensors):
        for key in list(tensors):
            tensors[key.removeprefix("model.")] = tensors.pop(key)

    def output_only(tensors):
        tensors["lm_head.weight"] = tensors.pop("model.embed_tokens.weight")

    for change in (without_prefix, output_only):
        case = folder / change.__name__
        saved(case / "original", "smollm2")
        replace_tensors(case / "original", change)
        strata("import", case / "original", case / "imported")
        strata("export", case / "imported", case / "exported")
        saved(case / "expected", "smollm2")
        compare_files(change.__name__, case / "expected", case / "exported")


def test_misfits(folder):
    saved(folder / "original")

    def misfit(tensors):
        del tensors["model.norm.weight"]
        tensors["lm_head.weight"] = torch.zeros(VOCAB, 31)
        tensors["model.extra"] = torch.zeros(1)
        tensors["model.layers.0.input_layernorm.weight"] = torch.zeros(32, dtype=torch.int32)
        tensors["model.layers.1.input_layernorm.weight"] = torch.zeros(32, dtype=torch.bool)
        tensors["model.mask"] = torch.zeros(1, dtype=torch.uint8)

    replace_tensors(folder / "original", misfit)
    text = strata("import", folder / "original", folder / "imported", code=1)
    for line in ("missing: 'model.norm.weight' [32]", "wrong shape: 'lm_head.weight' is [64 31]",
                 "unexpected: 'model.extra'", "wrong type: 'model.layers.0.input_layernorm.weight' is i32",
                 "unexpected: 'model.mask'", "wrong type: 'model.layers.1.input_layernorm.weight' is BOOL"):
        check(line in text, f"misfits: no line {line} in {text}")
    check([path.name for path in folder.iterdir()] == ["original"], "misfits: something was left")


LLAMA3_WITHOUT_CONTEXT = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)

# Model; its rotary positions as files of transformers 4 have them; other fields.
OLD_ROTARY_FIELDS = [
    ("llama2", None, {}),
    ("llama3", LLAMA3_WITHOUT_CONTEXT, dict(original_max_position_embeddings=16)),
    ("yarn", dict(type="yarn", factor=4.0), dict(original_max_position_embeddings=8)),
    ("linear", dict(type="linear", factor=2.0), {}),
    ("llama3", dict(LLAMA3_WITHOUT_CONTEXT, original_max_position_embeddings=16), {}),
    ("yarn", dict(type="yarn", factor=4.0, original_max_position_embeddings=8, attention_factor=1.25), {}),
]


def test_old_rotary_fields(folder):
    for index, (name, scaling, fields) in enumerate(OLD_ROTARY_FIELDS):
        case = folder / str(index)
        saved(case / "original", name)
        edit_config(case / "original", without=["rope_parameters"], rope_theta=500.0, rope_scaling=scaling,
                    **fields)
        model = transformers.AutoModelForCausalLM.from_pretrained(case / "original", attn_implementation="eager").eval()
        check(model.config.rope_parameters["rope_theta"] == 500.0, f"{name}: transformers does not read the fields")
        strata("import", case / "original", case / "imported")
        compare_logits(case, f"{name} with old fields", model)


def test_odd_head_dim(folder):
    """A Qwen2 may have heads of another width than its stream gives them."""
    config = transformers.Qwen2Config(**GROUPED, head_dim=16)
    model = random_model(transformers.Qwen2ForCausalLM, config)
    model.save_pretrained(folder / "original")
    strata("import", folder / "original", folder / "imported")
    compare_logits(folder, "qwen2 with head_dim", model)
    strata("export", folder / "imported", folder / "exported")
    compare_files("qwen2 with head_dim", folder / "original", folder / "exported")


def test_missing_fields(folder):
    """A type of models has its own values for fields that a file lacks."""
    config = transformers.Qwen3Config(**{**SIZES, "num_attention_heads": 32})
    model = random_model(transformers.Qwen3ForCausalLM, config)
    model.save_pretrained(folder / "original")
    edit_config(folder / "original", without=["head_dim", "num_key_value_heads"])
    strata("import", folder / "original", folder / "imported")
    compare_logits(folder, "qwen3 without its sizes", model)


# Model; changes of [model] beside `from`; the fields of the exported config.json that are not the imported one's.
EDITED_CONFIGS = [
    ("llama3", "context = 16", {}),
    ("llama3", "context = 64", dict(max_position_embeddings=64)),
    ("qwen2_window", "norm_epsilon = 1e-6\nattention_dropout = 0.1", dict(rms_norm_eps=1e-6, attention_dropout=0.1)),
    ("mistral_full", "window = 8", dict(sliding_window=8)),
    ("gpt2", "dropout = 0.2", dict(resid_pdrop=0.2, embd_pdrop=0.2)),
]


def test_edited_configs(folder):
    """What the plugin does not know stays in config.json, and so does the longest context."""
    for index, (name, options, fields) in enumerate(EDITED_CONFIGS):
        case = folder / str(index)
        case.mkdir()
        saved(case / "original", name)
        edit_config(case / "original", task={"of": [{"any": 1}, []]}, eos_token_id=[2, 3], pad_token_id=None)
        write_data(case, fields.get("max_position_embeddings", CONTEXT))
        run, _ = train(case, "run", case / "original", model=options)
        found = config_of(exported(case, run, "exported"))
        check(found == config_of(case / "original") | fields, f"{name}, {options}: exported {found}")
    # No Mistral has other windows in its first blocks, so the edited file would not say what the model computes.
    run, _ = train(folder / "3", "other", folder / "3" / "original", model="window = 8\nwindow_layers = 1")
    text = strata("export", run, folder / "refused", code=2)
    check("window: found 8" in text, text)


def test_tied_copy(folder):
    saved(folder / "original", "qwen2")
    replace_tensors(folder / "original", lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].clone()}))
    strata("import", folder / "original", folder / "imported")
    replace_tensors(folder / "original", lambda t: t["lm_head.weight"].add_(1))
    check("'lm_head.weight' differs" in strata("import", folder / "original", folder / "other", code=1), "tied copy")


# Model; changes of its config.json; what the message names.
REFUSED_CONFIGS = [
    ("llama3", dict(model_type="bert"), 'model_type: found "bert"'),
    ("llama3", dict(hidden_act="gelu"), 'hidden_act: found "gelu"; accepted: "silu"'),
    ("llama3", dict(quantization_config=dict(bits=4)), "quantization_config"),
    ("llama3", dict(rope_scaling=dict(rope_type="dynamic", factor=2.0)), 'rope_scaling.rope_type: found "dynamic"'),
    ("llama3", dict(partial_rotary_factor=0.5), "partial_rotary_factor: found 0.5"),
    ("llama3", dict(hidden_size="wide"), 'hidden_size: found "wide"; accepted: an integer'),
    ("llama3", dict(num_hidden_layers=None), "num_hidden_layers: missing"),
    ("llama3", dict(num_key_value_heads=3), "kv_heads"),
    ("qwen2_window", dict(layer_types=["sliding_attention", "full_attention"]), "layer_types"),
    ("mistral", dict(layer_types=["full_attention", "sliding_attention"]), "layer_types"),
    ("gpt2", dict(activation_function="relu"), "activation_function"),
    ("gpt2", dict(n_inner=100), "n_inner: found 100; accepted: 128"),
    ("gpt2", dict(scale_attn_by_inverse_layer_idx=True), "scale_attn_by_inverse_layer_idx"),
]


def test_refused_configs(folder):
    for index, (name, changes, message) in enumerate(REFUSED_CONFIGS):
        original = folder / f"{index}"
        saved(original, name)
        edit_config(original, **changes)
        text = strata("import", original, folder / "imported", code=2)
        check("config.json" in text and message in text, f"{changes}: {text}")


# Changes of [model] beside `from`; the exit code; what the message names.
OVERRIDES = [
    ("context = 16", 0, ""),
    ("norm_epsilon = 1e-6", 0, ""),
    ("layers = 1", 2, "unexpected: 'model.layers.1."),
    ("embed = 64", 2, "wrong shape: 'lm_head.weight' is [64 32]; this run's model has [64 64]"),
    ("qk_norm = 'yes'", 2, "missing: 'model.layers.0.self_attn.k_norm.weight' [8]"),
    ('plugin = "gpt2"', 2, "has a model of the plugin 'llama'"),
]


def test_overrides(folder):
    saved(folder / "original")
    write_data(folder)
    for line, code, message in OVERRIDES:
        file = write_configuration(folder, "run", folder / "original", model=line)
        text = strata("check", file, code=code)
        check(message in text, f"{line}: {text}")


# Options of a model; the type that it is exported as, or what the refusal names.
EXPORTED_TYPES = [
    ("window = 4", "mistral"),
    ("window = 4\nwindow_layers = 1\nqkv_bias = 'yes'", "qwen2"),
    ("qk_norm = 'yes'\nqkv_bias = 'yes'\noutput_bias = 'yes'", "qwen3"),
    ("window = 4\nwindow_layers = 1", "model 'llama'"),
    ("qk_norm = 'yes'\nmlp_bias = 'yes'", "mlp_bias"),
    ("output_bias = 'yes'", "output_bias"),
]


def test_exported_types(folder):
    """Models that Strata made itself."""
    write_data(folder)
    for index, (options, expected) in enumerate(EXPORTED_TYPES):
        sizes = f"plugin = 'llama'\nlayers = 2\nheads = 4\nembed = 32\ncontext = {CONTEXT}\nvocab = {VOCAB}\n"
        run, _ = train(folder, f"run{index}", "", model=sizes + options)
        out = folder / f"exported{index}"
        is_refused = expected not in ("mistral", "qwen2", "qwen3")
        text = strata("export", run, out, code=2 if is_refused else 0)
        if is_refused:
            check(expected in text, f"{options}: {text}")
        else:
            loaded = transformers.AutoModelForCausalLM.from_pretrained(out)
            check(loaded.config.model_type == expected, f"{options}: exported as {loaded.config.model_type}")


def test_folders_are_not_overwritten(folder):
    saved(folder / "original")
    strata("import", folder / "original", folder / "imported")
    strata("import", folder / "original", folder / "imported", code=2)
    strata("export", folder / "imported", folder / "original", code=2)
    (folder / "file").write_text("")
    strata("export", folder / "imported", folder / "file", code=2)


def main(folder):
    for name, (kind, config) in MODELS.items():
        compare_model(folder / name, name, kind, config)
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            (folder / name).mkdir()
            test(folder / name)
            print(name, flush=True)


with tempfile.TemporaryDirectory() as temporary:
    main(Path(temporary))
sys.exit(1 if failures else 0)
