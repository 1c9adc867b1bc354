"""All of a module's state in one buffer, in its own dtypes, while the module goes on working."""

import copy
from itertools import pairwise

import pytest
import torch
from torch import nn

from unilab.weights import FlatState, Manifest


class Net(nn.Module):
    """Every kind of entry that a policy may have; entry number k is filled with k."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.scale = nn.Parameter(torch.tensor(1.0))  # without dimensions
        self.narrow = nn.Parameter(torch.ones(5, dtype=torch.float16))
        self.norm = nn.BatchNorm1d(2)  # buffers, one of them an int64 counter
        self.register_buffer("count", torch.tensor(2**24 + 1))
        self.register_buffer("mean", torch.full((3,), 1.0 + 2.0**-40, dtype=torch.float64))
        self.register_buffer("mask", torch.tensor([True, False, True]))
        self.register_buffer("nothing", torch.empty(0, 4))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def test_no_entry_of_the_state_dict_is_lost_or_changed(net):
    before = copy.deepcopy(net.state_dict())
    FlatState(net)
    after = net.state_dict()

    assert list(after) == list(before)
    for name, tensor in before.items():
        assert after[name].dtype == tensor.dtype, name
        assert after[name].shape == tensor.shape, name
        assert torch.equal(after[name], tensor), name


def test_entries_of_two_dtypes_do_not_overlap_counted_in_elements_either():
    """Torch's compiler takes an int64 at byte 800 for a neighbour of the float32 at byte 400: both are element 100."""
    net = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), Net())  # its counter lies at an offset within the weight
    FlatState(net)

    spans = sorted((x.storage_offset(), x.storage_offset() + x.numel()) for x in net.state_dict().values())

    assert all(stop <= start for (_, stop), (start, _) in pairwise(spans))


def test_the_buffer_alone_restores_every_entry_bit_for_bit(net):
    sent = FlatState(net)
    other = Net()
    received = FlatState(other)

    received.buffer.copy_(sent.buffer)

    for name, tensor in net.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor), name
    assert other.count.item() == 2**24 + 1  # float32 would say 2**24
    assert other.mean[0].item() == 1.0 + 2.0**-40  # float32 would say 1.0
    assert other.mask.tolist() == [True, False, True]
    assert other.norm.num_batches_tracked.dtype == torch.int64


def test_parameters_and_buffers_keep_their_identity(net):
    names = [*dict(net.named_parameters()), *dict(net.named_buffers())]
    before = {name: id(net.get_parameter(name)) for name in dict(net.named_parameters())}
    before |= {name: id(net.get_buffer(name)) for name in dict(net.named_buffers())}
    FlatState(net)

    for name in names:
        part = net.get_parameter(name) if name in dict(net.named_parameters()) else net.get_buffer(name)
        assert id(part) == before[name], name
    assert isinstance(net.scale, nn.Parameter)


def test_a_step_of_an_optimiser_that_was_there_before_reaches_the_buffer(net):
    optimiser = torch.optim.SGD(net.layer.parameters(), lr=1.0)
    flat = FlatState(net)
    before = flat.buffer.clone()
    bias = net.layer.bias.detach().clone()

    net.layer(torch.ones(4, 3)).sum().backward()
    optimiser.step()

    assert torch.equal(net.layer.bias.detach(), bias - 4.0)  # d(sum of 4 rows) / d(bias) = 4
    assert not torch.equal(flat.buffer, before)
    flat.check()


def test_gradients_and_training_mode_of_buffers_work_as_before(net):
    flat = FlatState(net)
    net.norm(torch.ones(4, 2))

    entry = next(e for e in flat.manifest.entries if e.name == "norm.num_batches_tracked")
    assert flat.view(entry).item() == 1
    flat.check()


def test_each_entry_starts_on_a_cache_line_of_its_own(net):
    flat = FlatState(net)

    entries = flat.manifest.entries
    assert all(entry.offset % 64 == 0 for entry in entries)
    ends = [entry.offset + -(-entry.nbytes // 64) * 64 for entry in entries]
    assert [entry.offset for entry in entries] == [0, *ends[:-1]]
    assert flat.manifest.nbytes == ends[-1] == len(flat.buffer)
    assert flat.buffer.data_ptr() % 64 == 0


def test_offsets_by_hand():
    manifest = Manifest.of(nn.Linear(20, 3))  # 60 floats = 240 bytes -> 256; 3 floats -> 64

    assert [(e.name, e.offset, e.nbytes) for e in manifest.entries] == [("weight", 0, 240), ("bias", 256, 12)]
    assert manifest.nbytes == 320


def test_a_module_without_state_has_a_buffer_all_the_same():
    flat = FlatState(nn.Tanh())

    assert flat.manifest.entries == ()
    assert len(flat.buffer) == 64
    flat.check()


def test_a_replaced_entry_is_found_and_named(net):
    flat = FlatState(net)
    flat.check()
    net.count = net.count + 1  # a new tensor instead of add_

    with pytest.raises(RuntimeError, match="count was replaced"):
        flat.check()


@pytest.mark.parametrize("name", ["layer.weight", "norm.running_mean", "scale"])
def test_replaced_data_is_found(net, name):
    flat = FlatState(net)
    state = net.state_dict(keep_vars=True)
    state[name].data = state[name].data.clone()

    with pytest.raises(RuntimeError, match=f"{name} was replaced"):
        flat.check()


def test_loading_a_state_dict_changes_in_place(net):
    flat = FlatState(net)
    state = {name: torch.ones_like(tensor) for name, tensor in net.state_dict().items()}
    net.load_state_dict(state)

    flat.check()
    assert flat.view(flat.manifest.entries[0]).eq(1).all()


def test_shared_parameters_are_refused():
    net = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    net["b"].weight = net["a"].weight

    with pytest.raises(ValueError, match=r"a\.weight and b\.weight are one tensor"):
        FlatState(net)


class OneEntry(nn.Module):
    def __init__(self, name="mean", shape=(3,), dtype=torch.float32):
        super().__init__()
        self.register_buffer(name, torch.zeros(shape, dtype=dtype))


@pytest.mark.parametrize(
    "other",
    [
        OneEntry(name="man"),
        OneEntry(shape=(4,)),
        OneEntry(shape=(3, 1)),
        OneEntry(dtype=torch.float64),
        OneEntry(dtype=torch.int32),
        nn.Tanh(),
    ],
    ids=["name", "length", "shape", "wider dtype", "dtype of the same width", "no entry"],
)
def test_the_fingerprint_changes_with_name_shape_and_dtype(other):
    assert Manifest.of(OneEntry()).fingerprint == Manifest.of(OneEntry()).fingerprint
    assert Manifest.of(OneEntry()).fingerprint != Manifest.of(other).fingerprint


def test_the_fingerprint_does_not_depend_on_values_and_fits_an_int64(net):
    before = Manifest.of(net).fingerprint
    with torch.no_grad():
        net.layer.weight.fill_(5)

    assert Manifest.of(net).fingerprint == before
    assert 0 <= before < 2**63
