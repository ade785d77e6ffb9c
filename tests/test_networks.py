"""The networks of appendix E, layer by layer, and their faster equivalents against PyTorch's own."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tvae import layers, networks
from tvae.models import TVAE, VAE, build
from tvae.seeding import generator


def shapes(network: nn.Module, x: torch.Tensor) -> list[tuple[int, ...]]:
    """The output shapes of all layers that have weights."""
    seen: list[tuple[int, ...]] = []
    kinds = (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)
    hooks = [
        layer.register_forward_hook(lambda _m, _i, out: seen.append(tuple(out.shape[1:])))
        for layer in network.modules()
        if isinstance(layer, kinds)
    ]
    network(x)
    for hook in hooks:
        hook.remove()
    return seen


@pytest.mark.parametrize("d", [10, 25, 100])
def test_encoder_shapes_of_appendix_e(d):
    expected = [(32, 14, 14), (32, 7, 7), (64, 3, 3), (128, 1, 1), (2 * d, 1, 1)]
    assert shapes(networks.Encoder28(d), torch.rand(3, 1, 28, 28)) == expected
    assert networks.Encoder28(d)(torch.rand(3, 1, 28, 28)).shape == (3, 2 * d)


@pytest.mark.parametrize("d", [10, 25, 100])
def test_decoder_shapes_of_appendix_e(d):
    expected = [(128, 1, 1), (64, 4, 4), (32, 7, 7), (32, 14, 14), (1, 28, 28)]
    assert shapes(networks.Decoder28(d), torch.randn(3, d)) == expected


def test_kernels_of_appendix_e():
    for network in (networks.Encoder28(10), networks.Decoder28(10)):
        kernels = [
            layer.kernel_size
            for layer in network.modules()
            if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d) and layer.kernel_size != (1, 1)
        ]
        assert kernels == [(4, 4)] * 4


def test_the_last_layer_of_the_encoder_is_a_padded_4x4_convolution():
    """On a 1×1 map, a 4×4 kernel with padding sees its input through one tap only."""
    layer = nn.Conv2d(128, 50, 4, stride=2, padding=1)
    x = torch.randn(3, 128, 1, 1)
    padded = F.conv2d(F.pad(x, (0, 1, 0, 1)), layer.weight, layer.bias, stride=2, padding=1)
    tap = F.conv2d(x, layer.weight[:, :, 1:2, 1:2], layer.bias)
    assert torch.allclose(padded, tap, atol=1e-6)


def test_mlp_of_appendix_e():
    assert shapes(networks.mlp(50, 25), torch.randn(2, 50)) == [(1000,), (1000,), (25,)]


def test_networks_for_64_by_64():
    encoder, decoder = networks.default_networks(16, (3, 64, 64))
    assert encoder(torch.rand(2, 3, 64, 64)).shape == (2, 32)
    images = decoder(torch.randn(2, 16))
    assert images.shape == (2, 3, 64, 64)
    assert images.min() > 0 and images.max() < 1


def test_other_sizes_get_a_sentence():
    with pytest.raises(ValueError, match="28×28 and 64×64 images, not for 32×32"):
        networks.default_networks(8, (1, 32, 32))


sizes = st.integers(1, 9)


@settings(max_examples=30, deadline=None)
@given(c_in=st.integers(1, 5), c_out=st.integers(1, 4), height=sizes, width=sizes)
def test_upsampling_equals_the_transposed_convolution(c_in, c_out, height, width):
    layer = networks.Upsample(c_in, c_out).double()
    x = torch.randn(2, c_in, height, width, dtype=torch.double, requires_grad=True)
    expected = F.conv_transpose2d(x, layer.weight, layer.bias, stride=2, padding=1)
    ours = layer(x)
    assert torch.allclose(ours, expected, atol=1e-12)
    probe = torch.randn_like(expected)
    leaves = (x, layer.weight, layer.bias)
    for a, b in zip(
        torch.autograd.grad(ours, leaves, probe),
        torch.autograd.grad(expected, leaves, probe),
        strict=True,
    ):
        assert torch.allclose(a, b, atol=1e-12)


@pytest.mark.parametrize(("c_in", "c_out", "kernel"), [(5, 3, 4), (128, 64, 4), (1, 1, 2)])
def test_a_point_transposed_equals_the_transposed_convolution(c_in, c_out, kernel):
    layer = networks.FromPoint(c_in, c_out, kernel).double()
    x = torch.randn(3, c_in, 1, 1, dtype=torch.double, requires_grad=True)
    expected = F.conv_transpose2d(x, layer.weight, layer.bias)
    assert torch.allclose(layer(x), expected, atol=1e-12)


def test_to_point_equals_the_padded_convolution():
    layer = networks.ToPoint(5, 7).double()
    x = torch.randn(3, 5, 3, 3, dtype=torch.double)
    expected = F.conv2d(x, layer.weight, layer.bias, stride=2, padding=1)
    assert torch.allclose(layer(x), expected, atol=1e-12)


@pytest.mark.parametrize(("stride", "padding"), [(1, 0), (2, 1)])
def test_transpose_equals_the_transposed_convolution(stride, padding):
    layer = networks.Transpose(5, 3, 4, stride=stride, padding=padding).double()
    x = torch.randn(2, 5, 4, 6, dtype=torch.double, requires_grad=True)
    expected = F.conv_transpose2d(x, layer.weight, layer.bias, stride, padding)
    assert torch.allclose(layer(x), expected, atol=1e-12)
    leaves = (x, layer.weight, layer.bias)
    probe = torch.randn_like(expected)
    for a, b in zip(
        torch.autograd.grad(layer(x), leaves, probe),
        torch.autograd.grad(expected, leaves, probe),
        strict=True,
    ):
        assert torch.allclose(a, b, atol=1e-12)


def test_weights_come_from_the_generator_in_pytorchs_distribution():
    state = torch.random.get_rng_state()
    encoders = [networks.Encoder28(25) for _ in range(2)]
    torch.random.set_rng_state(state)
    for encoder in encoders:
        networks.initialise(encoder, generator(3, "weights"))
    pairs = zip(encoders[0].parameters(), encoders[1].parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)

    reference, ours = nn.ConvTranspose2d(64, 32, 4), nn.ConvTranspose2d(64, 32, 4)
    networks.initialise(ours, generator(0, "weights"))
    bound = 1 / math.sqrt(32 * 16)
    for layer in (reference, ours):
        assert 0.98 * bound < layer.weight.abs().max() <= bound
        assert float(layer.weight.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.02)


def test_the_width_of_the_64_by_64_networks_is_kept_with_the_model():
    narrow = TVAE(4, (3, 64, 64), likelihood="gaussian", width=2)
    assert narrow.encoder[0].out_channels == 2
    assert VAE(4, (3, 64, 64), likelihood="gaussian").encoder[0].out_channels == 32
    again = build(narrow.settings)
    again.load_state_dict(narrow.state_dict())
    assert again.settings == narrow.settings
    assert narrow.as_vae().settings["width"] == 2
    assert "width" not in VAE(4).settings
    with pytest.raises(ValueError, match="no width"):
        VAE(4, width=8)
    with pytest.raises(ValueError, match="width must be a positive"):
        networks.default_networks(4, (3, 64, 64), 0)


def _matrices(rows, columns):
    """Matrices of one shape that lie differently in memory, as gradients and weights may."""
    yield torch.randn(rows, columns)
    yield torch.randn(columns, rows).T
    yield torch.randn(2 * rows, 3 * columns)[::2, ::3]
    yield torch.randn(rows, 1).expand(rows, columns)
    yield torch.ones(()).expand(rows, columns)


@pytest.mark.parametrize("size", [(1, 1, 1), (5, 33, 2), (100, 7, 64), (0, 5, 3), (4, 0, 3)])
def test_products_are_those_of_float64(size):
    m, k, n = size
    for a in _matrices(m, k):
        for b in _matrices(k, n):
            expected = (a.double() @ b.double()).float()
            torch.testing.assert_close(layers.product(a, b), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(7, 5), (2, 3, 5)])
def test_a_linear_layer_is_pytorchs_with_its_gradients(shape):
    layer, x = layers.Linear(5, 3), torch.randn(shape, requires_grad=True)
    leaves = (x, layer.weight, layer.bias)
    expected = F.linear(*leaves)
    torch.testing.assert_close(layer(x), expected)
    found = torch.autograd.grad(layer(x).square().sum(), leaves)
    torch.testing.assert_close(found, torch.autograd.grad(expected.square().sum(), leaves))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        layer(torch.randn(2, 4))
