"""A real Ray cluster on this machine: a head without processors, and worker nodes that each have one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil

SMALL = {"object_store_memory": 80 << 20}


@contextmanager
def ray_cluster(nodes: int) -> Iterator[Any]:
    """`ray.cluster_utils.Cluster`, with its worker nodes as `workers`; what nodes fetch lies in a folder of their own."""
    import ray
    from ray.cluster_utils import Cluster

    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="q", dir="/tmp", ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = folder
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **SMALL})
        try:
            cluster.workers = [joined(cluster) for _ in range(nodes)]
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before


def joined(cluster: Any) -> Any:
    """One more node."""
    return cluster.add_node(num_cpus=1, **SMALL)


def killed(cluster: Any, node: Any) -> None:
    """A node with all its workers, at once, as of a machine that is switched off; Ray's own outlive it by a moment."""
    own = [psutil.Process(info.process.pid) for infos in node.all_processes.values() for info in infos]
    workers = [child for process in own for child in process.children(recursive=True)]
    cluster.remove_node(node, allow_graceful=False)
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            worker.kill()
    psutil.wait_procs(workers, timeout=10)
