"""RMS norm in plain PyTorch: a trusted baseline, whose kernels no plan can hold."""
import torch


def marathon_run(tensors, dims, host, workspace):
    x = tensors["x"].float()
    scale = torch.rsqrt(x.square().mean(dim=1, keepdim=True) + 1e-6)
    tensors["out"].copy_(x * scale * tensors["w"])
