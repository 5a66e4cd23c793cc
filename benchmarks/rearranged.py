"""What rewrites of whole convolutions and pools are worth: networks they were proposed for, raced.

    python -m benchmarks.rearranged                        # every network, both targets
    python -m benchmarks.rearranged csrnet spp --target portable --threads 1 --budget 30
    python -m benchmarks.rearranged --write models         # the networks as files, nothing else

Each is optimized as the command does it, without the rules of rules/rearranged.rules and with them.
Printed are the times that both results take of the original's, with their intervals; which of these
rules are in the result; and of the others that match how much dearer the plan would be with them.
A network has random weights, and is the part that such rewrites are about.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx
from tensolog.optimizer import Optimization, optimize
from tensolog.rules import Rule
from tensolog.rules.gate.ledger.admission import applicable

from .zoo import build
from .zoo.layers import batch_normalization, convolution, normalized, pool
from .zoo.network import Network

FAMILY = "rearranged"
OPSET = 17
TARGETS = {"portable": "onnxruntime-cpu", "kernels": "onnxruntime-cpu+kernels"}


def _convolution(
    net: Network, value: str, *weight: int, bias: bool = True, **attributes: Any
) -> str:
    """Convolve by filters of a shape, whose weights keep activations near unit scale."""
    fan_in = 1
    for size in weight[1:]:
        fan_in *= size
    inputs = [net.normal("weight", *weight, std=(2 / fan_in) ** 0.5)]
    if bias:
        inputs.append(net.normal("bias", weight[0], std=0.05))
    return net.op("Conv", value, *inputs, kernel_shape=list(weight[2:]), **attributes)


def csrnet(height: int = 28, width: int = 28, divide: int = 2) -> onnx.ModelProto:
    """The dilated back end of CSRNet (Li et al. 2018), behind VGG's eighth of an image of 224x224.

    Channels are those of the paper, divided.
    """
    net = Network("csrnet", opset=OPSET, seed=0)
    channels = 512 // divide
    value = net.input("features", (1, channels, height, width))
    for outputs in (512 // divide, 512 // divide, 512 // divide, 256 // divide, 128 // divide, 64):
        value = _convolution(net, value, outputs, channels, 3, 3, pads=[2] * 4, dilations=[2, 2])
        value, channels = net.op("Relu", value), outputs
    net.output(convolution(net, value, (channels, 1)), "density", (1, 1, height, width))
    return net.model()


def aspp(size: int = 36, channels: int = 512, outputs: int = 256) -> onnx.ModelProto:
    """The pyramid of DeepLabV3 (Chen et al. 2017): rates 6, 12 and 18 beside a point."""
    net = Network("aspp", opset=OPSET, seed=0)
    value = net.input("features", (1, channels, size, size))
    branches = [normalized(net, value, (channels, outputs))]
    for rate in (6, 12, 18):
        branch = _convolution(
            net, value, outputs, channels, 3, 3, bias=False, pads=[rate] * 4, dilations=[rate] * 2
        )
        branches.append(net.op("Relu", batch_normalization(net, branch, outputs)))
    joined = net.op("Concat", *branches, axis=1)
    net.output(normalized(net, joined, (4 * outputs, outputs)), "pyramid", (1, outputs, size, size))
    return net.model()


def espcn(size: int = 128, factor: int = 3) -> onnx.ModelProto:
    """ESPCN (Shi et al. 2016): one channel, and a shuffle of channels into pixels at the end."""
    net = Network("espcn", opset=OPSET, seed=0)
    value = net.input("image", (1, 1, size, size))
    value = net.op("Tanh", convolution(net, value, (1, 64), 5))
    value = net.op("Tanh", convolution(net, value, (64, 32), 3))
    value = convolution(net, value, (32, factor * factor), 3)
    value = net.op("DepthToSpace", value, blocksize=factor, mode="CRD")
    net.output(value, "large", (1, 1, factor * size, factor * size))
    return net.model()


def resnet18(image: int = 224) -> onnx.ModelProto:
    """ResNet-18 (He et al. 2016) without its classifier, at batch 1."""
    net = Network("resnet18", opset=OPSET, seed=0)
    value = normalized(net, net.input("image", (1, 3, image, image)), (3, 64), 7, stride=2)
    value, channels = pool(net, "MaxPool", value, 3, stride=2, padding=1), 64
    for outputs in (64, 128, 256, 512):
        for _ in range(2):
            stride = 2 if outputs != channels else 1
            shortcut = value
            value = normalized(net, value, (channels, outputs), 3, stride=stride)
            value = normalized(net, value, (outputs, outputs), 3, activation=None, gain=0.3)
            if stride > 1:
                shortcut = normalized(
                    net, shortcut, (channels, outputs), stride=stride, activation=None
                )
            value, channels = net.op("Relu", net.op("Add", value, shortcut)), outputs
    net.output(value, "features", (1, 512, image // 32, image // 32))
    return net.model()


def r2plus1d(frames: int = 8, image: int = 28, channels: int = 64) -> onnx.ModelProto:
    """Two blocks of R(2+1)D (Tran et al. 2018): each filter over space, then one over time."""
    net = Network("r2plus1d", opset=OPSET, seed=0)
    value = net.input("video", (1, channels, frames, image, image))
    middle = 27 * channels * channels // (9 * channels + 3 * channels)
    for _ in range(2):
        shortcut = value
        for step in range(2):
            value = _convolution(
                net, value, middle, channels, 1, 3, 3, bias=False, pads=[0, 1, 1, 0, 1, 1]
            )
            value = net.op("Relu", batch_normalization(net, value, middle))
            value = _convolution(
                net, value, channels, middle, 3, 1, 1, bias=False, pads=[1, 0, 0, 1, 0, 0]
            )
            value = batch_normalization(net, value, channels, gain=0.5 if step else 1.0)
            value = net.op("Relu", net.op("Add", value, shortcut) if step else value)
    net.output(value, "features", (1, channels, frames, image, image))
    return net.model()


def r3d(frames: int = 8, image: int = 28, channels: int = 64) -> onnx.ModelProto:
    """Two blocks of a 3D ResNet-18 (Hara et al. 2018)."""
    net = Network("r3d", opset=OPSET, seed=0)
    value = net.input("video", (1, channels, frames, image, image))
    for _ in range(2):
        shortcut = value
        for step in range(2):
            value = _convolution(net, value, channels, channels, 3, 3, 3, bias=False, pads=[1] * 6)
            value = batch_normalization(net, value, channels, gain=0.5 if step else 1.0)
            value = net.op("Relu", net.op("Add", value, shortcut) if step else value)
    net.output(value, "features", (1, channels, frames, image, image))
    return net.model()


def spp(size: int = 20, channels: int = 512) -> onnx.ModelProto:
    """Spatial pyramid pooling as in YOLOv3-SPP: windows of 5, 9 and 13 beside the image."""
    net = Network("spp", opset=OPSET, seed=0)
    value = net.input("features", (1, 2 * channels, size, size))
    value = normalized(net, value, (2 * channels, channels))
    pools = [pool(net, "MaxPool", value, k, stride=1, padding=k // 2) for k in (5, 9, 13)]
    joined = net.op("Concat", value, *pools, axis=1)
    net.output(normalized(net, joined, (4 * channels, channels)), "out", (1, channels, size, size))
    return net.model()


def depthwise(size: int = 56, channels: int = 32, factor: int = 2) -> onnx.ModelProto:
    """Depthwise convolutions that make several channels of each."""
    net = Network("depthwise", opset=OPSET, seed=0)
    value = net.input("features", (1, channels, size, size))
    for _ in range(3):
        value = _convolution(net, value, channels * factor, 1, 3, 3, pads=[1] * 4, group=channels)
        value = normalized(net, net.op("Relu", value), (channels * factor, channels))
    net.output(value, "out", (1, channels, size, size))
    return net.model()


def grouped(size: int = 28, width: int = 256, groups: int = 32) -> onnx.ModelProto:
    """Three blocks of ResNeXt-50 32x4d, second stage (Xie et al. 2017)."""
    net = Network("grouped", opset=OPSET, seed=0)
    value = net.input("features", (1, 2 * width, size, size))
    for _ in range(3):
        shortcut = value
        value = normalized(net, value, (2 * width, width))
        value = normalized(net, value, (width, width), 3, groups=groups)
        value = normalized(net, value, (width, 2 * width), activation=None, gain=0.3)
        value = net.op("Relu", net.op("Add", value, shortcut))
    net.output(value, "out", (1, 2 * width, size, size))
    return net.model()


def unet(image: int = 128) -> onnx.ModelProto:
    """The zoo's U-Net at batch 1, on a small image."""
    return build("unet", image=image)


NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    network_of.__name__: network_of
    for network_of in (csrnet, aspp, espcn, resnet18, r2plus1d, r3d, spp, depthwise, grouped, unet)
}


def optimized(
    model: onnx.ModelProto, rules: tuple[Rule, ...], target: str, threads: int, budget: float
) -> Optimization:
    """Optimize with some rules; kernels come from the user's catalog, so two runs share them."""
    return optimize(model, target=TARGETS[target], threads=threads, budget=budget, rules=rules)


def outcome_text(result: Optimization) -> str:
    """The time that a result takes of the original's."""
    chosen = next(
        candidate for candidate in result.candidates if candidate.candidate == result.chosen
    )
    if chosen.ratio is None or chosen.ratio_low is None or chosen.ratio_high is None:
        return "1 (the original)"
    return f"{chosen.ratio:.3f} ({chosen.ratio_low:.3f} to {chosen.ratio_high:.3f})"


def report(name: str, target: str, threads: int, budget: float) -> None:
    """Print what the rules of the file do to a network."""
    model, rules = NETWORKS[name](), applicable()
    ours = {rule.name for rule in rules if rule.family == FAMILY}
    without = optimized(
        model, tuple(r for r in rules if r.name not in ours), target, threads, budget
    )
    result = optimized(model, rules, target, threads, budget)
    print(f"{name:<11}{target:<10}{threads} thread{'s' * (threads > 1)}", flush=True)
    print(f"  without {outcome_text(without)}, with {outcome_text(result)}: {result.chosen}")
    applied = {step.rule for step in result.plan if step.accepted} & ours
    print(f"  in the result: {', '.join(sorted(applied)) or 'none of them'}")
    reasons = {
        step.rule: step.reason for step in result.plan if step.rule in ours and not step.accepted
    }
    for rule, reason in sorted(reasons.items()):
        if rule not in applied:
            print(f"  {rule}: {reason}", flush=True)


def main() -> None:
    """Read the arguments and print."""
    parser = argparse.ArgumentParser(description="rewrites of whole convolutions and pools")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=30.0)
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    if unknown := set(options.networks) - NETWORKS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    for name in options.networks or NETWORKS:
        if options.write is not None:
            options.write.mkdir(parents=True, exist_ok=True)
            onnx.save(NETWORKS[name](), options.write / f"{name}.onnx")
            continue
        for target in options.target or TARGETS:
            report(name, target, options.threads, options.budget)


if __name__ == "__main__":
    main()
