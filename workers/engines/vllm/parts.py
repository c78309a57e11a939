"""vLLM's own way of being on several nodes: the same command on each, which meet at the leader's port, without Ray."""

from workers.contracts.desired import ReplicaPart

# Without a compiled graph vLLM 0.32 skips the first pass, in which later stages make room for what comes to them: a
# graph is traced, and run as it is.
_TRACED = '{"mode": 2, "backend": "eager", "ir_enable_torch_wrap": false}'


def part_arguments(part: ReplicaPart | None) -> list[str]:
    if part is None:
        return []
    arguments = ["--distributed-executor-backend", "mp", "--nnodes", str(part.count), "--node-rank", str(part.rank)]
    arguments += ["--master-addr", part.master_host, "--master-port", str(part.master_port)]
    return arguments if part.leads else [*arguments, "--headless"]


def host_of_part(part: ReplicaPart | None) -> dict[str, str]:
    """The address that the other nodes know this one by: of several interfaces vLLM would guess."""
    return {} if part is None else {"VLLM_HOST_IP": part.host}


def cpu_arguments(part: ReplicaPart | None) -> list[str]:
    if part is None:
        return ["--dtype", "float32", "--enforce-eager"]
    return ["--dtype", "float32", "--compilation-config", _TRACED, "--pipeline-parallel-size", str(part.stages)]
