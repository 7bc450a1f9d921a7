"""Compares vit and resnet with torchvision: logits, the loss, the accuracy and gradients of a step, and files."""

from small_models import *

import torch
import torchvision
from torch.nn.functional import cross_entropy

IMAGES, SIDE, CLASSES = 6, 32, 10
SMOOTHING = 0.1
VIT = dict(image_size=SIDE, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=48, num_classes=CLASSES)
RESNET = dict(layers=[1, 2, 1, 1], num_classes=CLASSES)


def resnet(block):
    return (lambda: torchvision.models.ResNet(getattr(torchvision.models.resnet, block), **RESNET),
            dict(model_type="torchvision_resnet", block=block, image_size=SIDE, **RESNET))


MODELS = {
    "vit": (lambda: torchvision.models.VisionTransformer(**VIT), dict(model_type="torchvision_vit", **VIT)),
    "resnet": resnet("BasicBlock"),
    "resnet_bottleneck": resnet("Bottleneck"),
}
CONFIGURATION = """
[run]
steps = 1
output = "{folder}/run"
[model]
from = "{folder}/original"
label_smoothing = {smoothing}
[data]
plugin = "images"
paths = ["{folder}/images"]
mean = [0.5, 0.5, 0.5]
std = [0.25, 0.25, 0.25]
[batch]
global = {images}
micro = {images}
[optimizer]
plugin = "sgd"
lr = {lr}
weight_decay = 0.0
clip = 0.0
"""


def small_model(make):
    torch.manual_seed(7)
    model = make()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
        for name, buffer in model.named_buffers():
            if "running" in name:
                buffer.add_(0.1 * torch.rand_like(buffer))
    return model


def save(model, config, folder):
    folder.mkdir()
    save_file(model.state_dict(), folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))


def image_file(path, model):
    """A file of CIFAR-10's format. Returns the images as the dataset normalises them, and the labels, of which the model
    predicts half."""
    generator = numpy.random.default_rng(5)
    pixels = generator.integers(0, 256, (IMAGES, 3, SIDE, SIDE)).astype("uint8")
    images = torch.from_numpy((pixels / 255.0 - 0.5) / 0.25).float()
    labels = numpy.arange(IMAGES).astype("uint8")
    with torch.no_grad():
        labels[::2] = model.eval()(images).argmax(1)[::2]
    with open(path, "wb") as file:
        for label, image in zip(labels, pixels):
            file.write(bytes([label]) + image.tobytes())
    return images, torch.from_numpy(labels.astype("int64"))


def accuracy_of(logits, labels):
    return (logits.argmax(1) == labels).double().mean().item()


def compare_eval(folder, name, model, images):
    images[0].numpy().tofile(folder / "input.images")
    subprocess.run([LOGITS, folder / "imported", folder / "input", folder / "logits", "data.plugin=images",
                    'data.paths=["none"]'], check=True)
    found = torch.from_numpy(numpy.fromfile(folder / "logits", "float32"))
    with torch.no_grad():
        expected = model.eval()(images[:1])[0]
    difference = (found - expected).abs().max().item() / max(1, expected.abs().max().item())
    check(difference < 1e-5, f"{name}: logits differ by {difference}")
    return difference


def compare_step(folder, name, model, images, labels):
    model.train()
    logits = model(images)
    loss = cross_entropy(logits, labels, label_smoothing=SMOOTHING)
    loss.backward()
    (folder / "run.toml").write_text(CONFIGURATION.format(folder=folder, smoothing=SMOOTHING, images=IMAGES,
                                                          lr=LEARNING_RATE))
    strata("train", folder / "run.toml", "--log-json", folder / "log.json")
    events = [json.loads(line) for line in (folder / "log.json").read_text().splitlines()]
    step = [event for event in events if "event" not in event][0]
    check(abs(step["loss"] - loss.item()) < 1e-5, f"{name}: loss {step['loss']}, torchvision {loss.item()}")
    accuracy = accuracy_of(logits, labels)
    check(step["metrics"] == {"accuracy": accuracy}, f"{name}: {step['metrics']}, torchvision {accuracy}")
    strata("export", folder / "run", folder / "stepped")
    before, after = tensors_of(folder / "original"), tensors_of(folder / "stepped")
    worst, of = 0, ""
    for key, parameter in model.named_parameters():
        difference = (before[key].double() - after[key].double()) / LEARNING_RATE - parameter.grad.double()
        if key.endswith("in_proj_bias"):  # that of the keys has no gradient but for rounding
            difference[VIT["hidden_dim"]:2 * VIT["hidden_dim"]] = 0
        share = difference.abs().max().item() / max(parameter.grad.abs().max().item(), 1e-4)
        worst, of = max((worst, of), (share, key))
    check(worst < 1e-4, f"{name}: gradients of {of} differ by {worst}")
    for key, buffer in model.named_buffers():
        if "running" in key:
            difference = (buffer - after[key]).abs().max().item()
            check(difference < 1e-5, f"{name}: {key} differs by {difference}")
    return worst


def compare_accuracy(folder, name, model, images, labels):
    """Of the running averages of batch norms, as `strata evaluate` prints it."""
    settings = ["data.plugin=images", "data.mean=[0.5, 0.5, 0.5]", "data.std=[0.25, 0.25, 0.25]"]
    printed = strata("evaluate", folder / "imported", folder / "images", "--json",
                     *(word for each in settings for word in ("--set", each)))
    found = json.loads(printed[printed.index("{"):])["metrics"]["accuracy"]
    with torch.no_grad():
        expected = accuracy_of(model.eval()(images), labels)
    check(found == expected and expected >= 0.5, f"{name}: accuracy {found}, torchvision {expected}")


def test_models(folder):
    for name, (make, config) in MODELS.items():
        own = folder / name
        own.mkdir()
        model = small_model(make)
        save(model, config, own / "original")
        images, labels = image_file(own / "images", model)
        strata("import", own / "original", own / "imported")
        logits = compare_eval(own, name, model, images)
        compare_accuracy(own, name, model, images, labels)
        gradients = compare_step(own, name, model, images, labels)
        strata("export", own / "imported", own / "exported")
        before, after = tensors_of(own / "original"), tensors_of(own / "exported")
        names = {key for key in before if not key.endswith("num_batches_tracked")}
        check(after.keys() == names, f"{name}: other names: {after.keys() ^ names}")
        for key in names & after.keys():
            check(torch.equal(before[key], after[key]), f"{name}: exported {key} differs")
        make().load_state_dict(after)
        print(f"{name}: logits {logits:.1e}, gradients {gradients:.1e}", flush=True)


run_tests(globals())
