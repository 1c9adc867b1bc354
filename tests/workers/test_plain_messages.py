"""What processes tell one another does not go through /dev/shm."""

import os
from multiprocessing import Pipe
from multiprocessing.reduction import ForkingPickler

import torch

from unilab.shm import Bell
from unilab.workers.child import Link
from unilab.workers.plain import Plain


def test_a_message_holds_its_tensors():
    bell, (receiver, sender) = Bell(), Pipe(duplex=False)
    noise = torch.arange(3.0)

    Link("collector-0", sender, bell, os.getpid()).send("state", {"noise": noise})
    kind, payload = receiver.recv()
    bell.close()

    assert (kind, payload["noise"].tolist()) == ("state", [0.0, 1.0, 2.0])
    assert not noise.is_shared()


def test_an_argument_of_a_process_holds_its_tensors():
    noise = torch.arange(3.0)
    arrived = ForkingPickler.loads(ForkingPickler.dumps(Plain({"noise": noise})))

    assert arrived["noise"].tolist() == [0.0, 1.0, 2.0]
    assert not noise.is_shared()
