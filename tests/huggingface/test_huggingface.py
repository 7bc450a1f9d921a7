"""Compares Strata with transformers on small random models of every family that Strata imports.

Each model is written by transformers' own class and imported by Strata. Its logits, its loss and all its gradients
must equal those of transformers. It is exported again and must have the same bytes and load into transformers.
"""

import json

# It sets what transformers reads when it is imported.
from small_models import *

import peft
import torch
import transformers


def gradients_of(model):
    """The gradients of the tensors of the files, in which every expert has its own."""
    gradients = {}
    for key, parameter in model.named_parameters():
        if model.config.model_type == "mixtral":
            key = key.replace(".mlp.", ".block_sparse_moe.")
        names = dict(gate="w1", up="w3", down="w2") if "block_sparse_moe" in key else {}
        for expert, gradient in enumerate(parameter.grad if ".experts." in key else []):
            parts = dict(zip(("gate", "up"), gradient.chunk(2))) if "gate_up" in key else dict(down=gradient)
            for part, of_part in parts.items():
                beginning = key.rpartition(".")[0]
                gradients[f"{beginning}.{expert}.{names.get(part, part + '_proj')}.weight"] = of_part
        if ".experts." not in key:
            gradients[key] = parameter.grad
    return gradients


def compare_gradients(folder, name, model, data):
    loss = loss_of(model, data)
    model.zero_grad()
    loss.backward()
    run, losses = train(folder, "gradients", folder / "imported", lr=LEARNING_RATE)
    check(abs(losses[0] - loss.item()) < 1e-5, f"{name}: loss {losses[0]}, transformers {loss.item()}")
    strata("export", run, folder / "stepped")
    before, after = tensors_of(folder / "original"), tensors_of(folder / "stepped")
    worst = 0
    for key, gradient in gradients_of(model).items():
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


# Adapters as PEFT configures them: a model, and its settings.
PEFT_ADAPTERS = {
    "patterns": ("llama3", dict(r=3, lora_alpha=5, target_modules=["q_proj", "o_proj", "down_proj", "lm_head"],
                                rank_pattern={"o_proj": 2}, alpha_pattern={"layers.1.mlp.down_proj": 7})),
    "stabilized": ("qwen3", dict(r=4, lora_alpha=3, use_rslora=True, target_modules=["v_proj", "gate_proj"])),
    "embedding": ("llama2", dict(r=2, lora_alpha=3, target_modules=["embed_tokens", "k_proj"])),
    "packed": ("gpt2", dict(r=4, lora_alpha=6, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True)),
    "packed_rows": ("phi3", dict(r=4, lora_alpha=6, target_modules=["qkv_proj", "gate_up_proj", "down_proj"])),
}


def test_adapters_of_peft(folder):
    """Adapters that PEFT saved compute in Strata what they do in PEFT."""
    for name, (family, settings) in PEFT_ADAPTERS.items():
        (folder / name).mkdir()
        data = write_data(folder / name)
        model = saved(folder / name / "original", family)
        before = loss_of(model, data).item()
        adapted = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **settings)).eval()
        with torch.no_grad():
            for parameter in adapted.parameters():
                if parameter.requires_grad:
                    parameter.add_(0.2 * torch.randn_like(parameter))
        adapted.save_pretrained(folder / name / "adapters", save_embedding_layers=False)
        strata("import", folder / name / "original", folder / name / "imported", "--adapters", folder / name / "adapters")
        compare_logits(folder / name, name, adapted)
        merged = exported(folder / name, folder / name / "imported", "merged")
        loss = loss_of(transformers.AutoModelForCausalLM.from_pretrained(merged), data).item()
        expected = loss_of(adapted, data).item()
        check(abs(loss - expected) < 1e-5, f"{name}: loss {loss}, PEFT {expected}")
        check(abs(loss - before) > 1e-3, f"{name}: the adapters do nothing: {loss}, {before}")


def test_types(folder):
    """A run in f32 gives files of the types that it began from, one by one."""
    saved(folder / "original")
    replace_tensors(folder / "original", lambda tensors: tensors.update(
        {name: value.to(torch.float32 if "norm" in name else torch.bfloat16) for name, value in tensors.items()}))
    write_data(folder)
    strata("import", folder / "original", folder / "imported")
    for start in ("original", "imported"):
        run, _ = train(folder, f"from_{start}", folder / start)
        _, _ = train(folder, f"from_{start}", folder / start, steps=2, arguments=["--resume", "auto"])
        found = tensors_of(exported(folder, run, f"{start}_exported"))
        for name, value in tensors_of(folder / "original").items():
            check(found[name].dtype == value.dtype, f"{name}: exported as {found[name].dtype}, was {value.dtype}")
    wide = tensors_of(exported(folder, run, "wide", "--dtype", "f32"))
    check(all(value.dtype == torch.float32 for value in wide.values()), "--dtype f32 gives other types")


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


# One of each kind of attention.
GENERATING = ["qwen3", "smollm3", "olmo2", "granite", "phi3_window", "phi3_partial", "gemma", "gemma2",
              "gemma3"]


def test_generated_tokens(folder):
    prompt = [5, 9, 2, 33]
    for name in GENERATING:
        model = saved(folder / name, name)
        strata("import", folder / name, folder / f"{name}_imported")
        text = strata("generate", folder / f"{name}_imported", "--prompt", " ".join(map(str, prompt)) + " ", "--tokens", 12,
                      "--temperature", 0)
        expected = prompt
        for _ in range(12):
            expected = expected + [model(input_ids=torch.tensor([expected])).logits[0, -1].argmax().item()]
        check(text.split() == list(map(str, expected)), f"{name} generated {text.split()}, transformers {expected}")


def test_average(folder):
    saved(folder / "original")
    write_data(folder)
    run, _ = train(folder, "run", folder / "original",
                   more="average = { decay = 0.5 }")
    before, after = tensors_of(folder / "original"), tensors_of(exported(folder, run, "after"))
    average = tensors_of(exported(folder, run, "average", "--average"))
    for key in before:
        check(torch.allclose(average[key], (before[key] + after[key]) / 2, atol=1e-6), f"average: {key} differs")


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


def test_families(folder):
    for name, (kind, config) in MODELS.items():
        compare_model(folder / name, name, kind, config)


run_tests(globals())
