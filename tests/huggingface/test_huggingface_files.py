"""Files as transformers of several versions and other programs save them: what is read, what is refused, what is exported."""

# It sets what transformers reads when it is imported.
from small_models import *

import torch
import transformers


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


def test_published_gpt2(folder):
    """The Hugging Face files of GPT-2 have no prefix, and buffers, which several versions wrote in different types."""
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
    ("phi3", dict(type="su", short_factor=LONGROPE["short_factor"], long_factor=LONGROPE["long_factor"],
                  original_max_position_embeddings=16), dict(original_max_position_embeddings=16)),
    ("phi3", None, dict(partial_rotary_factor=0.5)),
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
    ("ministral_listed", "window_layers = -1", dict(layer_types=["sliding_attention"] * 2)),
    ("seed_oss", "attention_dropout = 0.1", dict(attention_dropout=0.1)),
    ("qwen3_moe", "normalize = 'no'\nbalance_loss = 0.1", dict(norm_topk_prob=False)),
    ("granite", "residual_multiplier = 0.25", dict(residual_multiplier=0.25)),
    ("gemma2", "attention_multiplier = 0.25\nlogit_cap = 4.0",
     dict(query_pre_attn_scalar=16, final_logit_softcapping=4.0)),
]


def test_edited_configs(folder):
    """Fields that the plugin does not know stay in config.json, and so does the longest context."""
    for index, (name, options, fields) in enumerate(EDITED_CONFIGS):
        case = folder / str(index)
        case.mkdir()
        saved(case / "original", name)
        edit_config(case / "original", task={"of": [{"any": 1}, []]}, eos_token_id=[2, 3], pad_token_id=None)
        write_data(case, fields.get("max_position_embeddings", CONTEXT))
        run, _ = train(case, "run", case / "original", model=options)
        found = config_of(exported(case, run, "exported"))
        check(found == config_of(case / "original") | fields, f"{name}, {options}: exported {found}")


# Model; changes of [model] beside `from`; the field that contradicts the changed ones; the changed fields.
CONTRADICTED_FIELDS = [
    ("qwen2_window", "window_layers = 2", "layer_types", dict(max_window_layers=0)),
    ("smollm3", "no_rope_every = 3", "no_rope_layers", dict(no_rope_layer_interval=3)),
    ("llama3", "rope_base = 20000.0", "rope_parameters",
     dict(rope_theta=20000.0, rope_scaling={key: LLAMA3[key] for key in LLAMA3 if key != "rope_theta"})),
    ("yarn", "rope_attention_factor = 1.5", "rope_parameters",
     dict(rope_theta=10000.0, rope_scaling=dict({key: YARN[key] for key in YARN if key != "rope_theta"},
                                                beta_fast=32.0, beta_slow=1.0, attention_factor=1.5))),
]


def test_contradicted_fields(folder):
    """A field that does not fit the changed ones goes. All others stay."""
    for index, (name, options, field, fields) in enumerate(CONTRADICTED_FIELDS):
        case = folder / str(index)
        case.mkdir()
        saved(case / "original", name)
        write_data(case)
        run, losses = train(case, "run", case / "original", model=options)
        found, expected = config_of(exported(case, run, "exported")), config_of(case / "original") | fields
        del expected[field]
        check(found == expected, f"{name}, {options}: exported {found}, expected {expected}")
        _, again = train(case, "again", case / "exported")
        _, through = train(case, "through", case / "original", model=options, steps=2)
        check(again[0] == through[1], f"{name}, {options}: the exported model has the loss {again[0]}, expected {through[1]}")


def test_changed_types(folder):
    """A model that is no longer of its imported type is exported as another one."""
    saved(folder / "original", "mistral")
    write_data(folder)
    run, _ = train(folder, "run", folder / "original", model="window = 0\nwindow_layers = 1")
    found = config_of(exported(folder, run, "exported"))
    check(found["model_type"] == "mistral" and found["sliding_window"] is None, f"without its window: {found}")
    # No Mistral has other windows in its first blocks.
    run, _ = train(folder, "other", folder / "original", model="window = 8\nwindow_layers = 1")
    found = config_of(exported(folder, run, "listed"))
    check(found["model_type"] == "ministral" and found["layer_types"] == ["full_attention", "sliding_attention"],
          f"with one window: {found}")
    run, _ = train(folder, "neither", folder / "original", model="attention_cap = 5.0")
    text = strata("export", run, folder / "refused", code=2)
    check("attention_cap: found 5" in text, text)


def test_tied_copy(folder):
    saved(folder / "original", "qwen2")
    replace_tensors(folder / "original", lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].clone()}))
    strata("import", folder / "original", folder / "imported")
    replace_tensors(folder / "original", lambda t: t["lm_head.weight"].add_(1))
    check("'lm_head.weight' differs" in strata("import", folder / "original", folder / "other", code=1), "tied copy")


# Model; changes of its config.json; what the message names.
REFUSED_CONFIGS = [
    ("llama3", dict(model_type="roberta"), 'model_type: found "roberta"'),
    ("llama3", dict(hidden_act="gelu"), 'hidden_act: found "gelu"; accepted: "silu", "gelu_pytorch_tanh"'),
    ("llama3", dict(quantization_config=dict(bits=4)), "quantization_config"),
    ("llama3", dict(rope_scaling=dict(rope_type="dynamic", factor=2.0)), 'rope_scaling.rope_type: found "dynamic"'),
    ("llama3", dict(rope_scaling=5), "rope_scaling: found 5; accepted: an object or null"),
    ("llama3", dict(partial_rotary_factor=0.5), "partial_rotary_factor: found 0.5"),
    ("llama3", dict(hidden_size="wide"), 'hidden_size: found "wide"; accepted: an integer'),
    ("llama3", dict(num_hidden_layers=None), "num_hidden_layers: missing"),
    ("llama3", dict(num_key_value_heads=3), "kv_heads"),
    ("qwen2_window", dict(layer_types=["sliding_attention", "full_attention"]), "layer_types"),
    ("mistral", dict(layer_types=["full_attention", "sliding_attention"]), "layer_types"),
    ("ministral_listed", dict(layer_types=["sliding_attention"]), "layer_types: found other layers"),
    ("ministral_listed", dict(layer_types=["full_attention", "chunked_attention"]), "layer_types: found other layers"),
    ("ministral_listed", dict(sliding_window=None), "layer_types: found other layers"),
    ("smollm3", dict(no_rope_layers=[0, 1, 0]), "no_rope_layers: found other blocks"),
    ("smollm3", dict(no_rope_layers=[1, 0]), "no_rope_layers: found other blocks"),
    ("smollm3", dict(use_sliding_window=True), "use_sliding_window: found true"),
    ("granite", dict(logits_scaling=0.0), "logits_scaling: found 0.000000; accepted: above 0"),
    ("phi3", dict(rope_parameters=dict(rope_type="linear", factor=2.0)), 'rope_type: found "linear"'),
    ("phi3", dict(rope_parameters=dict(rope_type="longrope", short_factor=[1, 2])),
     "rope_parameters.long_factor: is no list of numbers"),
    ("phi3", dict(rope_parameters=dict(rope_type="longrope", short_factor=[1, 2], long_factor=[1, 2, 3, 4])),
     "rope_short_factors: found 2 numbers; accepted: 4"),
    ("phi3", dict(partial_rotary_factor=0.5, rope_parameters=None, num_attention_heads=16), "rope_fraction: found 1 features"),
    ("gemma2", dict(query_pre_attn_scalar=0), "query_pre_attn_scalar: found 0"),
    ("gemma2", dict(use_bidirectional_attention=True), "use_bidirectional_attention: found true"),
    ("gemma3", dict(model_type="gemma3"), 'model_type: found "gemma3"; accepted: bert, gpt2, llama, mistral'),
    ("mixtral", dict(num_experts_per_tok=5), "choices: found 5; accepted: 1 to experts = 4"),
    ("mixtral", dict(router_jitter_noise=0.1), "router_jitter_noise: found 0.1"),
    ("olmoe", dict(clip_qkv=8.0), "clip_qkv: found one; accepted: null"),
    ("qwen3_moe", dict(mlp_only_layers=[1]), "mlp_only_layers: found layers without experts; accepted: []"),
    ("qwen3_moe", dict(decoder_sparse_step=2), "decoder_sparse_step: found 2"),
    ("qwen3_moe", dict(use_sliding_window=True), "use_sliding_window: found true"),
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


GEMMA = "norm_plus_one = 'yes'\nscaled_embedding = 'yes'\ntied = 'yes'\nactivation = 'gelu_tanh'\n"

# Options of a model; the type that it is exported as, or what the refusal names.
EXPORTED_TYPES = [
    ("window = 4", "mistral"),
    ("window = 4\nwindow_layers = 1\nqkv_bias = 'yes'", "qwen2"),
    ("qk_norm = 'yes'\nqkv_bias = 'yes'\noutput_bias = 'yes'", "qwen3"),
    ("window = 4\nglobal_every = 2", "ministral"),
    ("no_rope_every = 2", "smollm3"),
    ("output_bias = 'yes'\nresidual_dropout = 0.1", "seed_oss"),
    ("residual_multiplier = 0.5\nattention_multiplier = 0.3", "granite"),
    ("norm_place = 'after'\nqk_norm = 'all_heads'", "olmo2"),
    ("model_type = 'phi3'\nwindow = 4", "phi3"),
    ("model_type = 'phi3'\nrope_scaling = 'longrope'\nrope_original_context = 16\n"
     "rope_short_factors = [1, 1, 1, 1.5]\nrope_long_factors = [1, 2, 3, 4]", "phi3"),
    ("model_type = 'phi3'\nrope_scaling = 'linear'\nrope_factor = 2.0", "llama"),
    ("rope_fraction = 0.5", "phi3"),
    (GEMMA, "gemma"),
    (GEMMA + "norm_place = 'both'\nattention_cap = 3.0\nattention_multiplier = 0.25", "gemma2"),
    (GEMMA + "norm_place = 'both'\nqk_norm = 'yes'\nwindow = 4\nglobal_every = 2\nlocal_rope_base = 100.0",
     "gemma3_text"),
    # transformers multiplies by experts only if their width is a multiple of 4.
    ("experts = 3\nffn = 48", "mixtral"),
    ("experts = 3\nffn = 48\nqk_norm = 'all_heads'", "olmoe"),
    ("experts = 3\nffn = 48\nqk_norm = 'yes'\nnormalize = 'no'\nbalance_loss = 0.1", "qwen3_moe"),
    ("experts = 3\nshared_ffn = 8", "shared_ffn: found 8"),
    ("experts = 3\nbalance_bias = 0.01", "balance_bias: found 0.01"),
    ("window = 4\nmlp_bias = 'yes'", "model 'llama'"),
    ("qk_norm = 'yes'\nmlp_bias = 'yes'", "mlp_bias: found yes"),
    ("norm_place = 'after'", "qk_norm: found no"),
]


def test_exported_types(folder):
    """Models that Strata made itself."""
    data = write_data(folder)
    for index, (options, expected) in enumerate(EXPORTED_TYPES):
        plugin = "mixture" if "experts" in options else "llama"
        sizes = f"plugin = '{plugin}'\nlayers = 2\nheads = 4\nembed = 32\ncontext = {CONTEXT}\nvocab = {VOCAB}\n"
        run, _ = train(folder, f"run{index}", "", model=sizes + options)
        out = folder / f"exported{index}"
        is_refused = " " in expected
        text = strata("export", run, out, code=2 if is_refused else 0)
        if is_refused:
            check(expected in text, f"{options}: {text}")
            continue
        loaded = transformers.AutoModelForCausalLM.from_pretrained(out, attn_implementation="eager").eval()
        check(loaded.config.model_type == expected, f"{options}: exported as {loaded.config.model_type}")
        _, losses = train(folder, f"again{index}", out)
        loss = loss_of(loaded, data).item()
        check("dropout" in options or abs(losses[0] - loss) < 1e-5, f"{options}: loss {losses[0]}, transformers {loss}")


def test_folders_are_not_overwritten(folder):
    saved(folder / "original")
    strata("import", folder / "original", folder / "imported")
    strata("import", folder / "original", folder / "imported", code=2)
    strata("export", folder / "imported", folder / "original", code=2)
    (folder / "file").write_text("")
    strata("export", folder / "imported", folder / "file", code=2)


run_tests(globals())
