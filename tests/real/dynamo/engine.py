"""One replica: Dynamo's simulated vLLM behind Dynamo's own OpenAI-compatible frontend, in one process.

usage: python engine.py ORDER     (a Python that has requirements.txt; ORDER is JSON, see `loadtests.run.foreign`)

Batches, KV blocks, preemption, metrics and HTTP are all Dynamo's; this file only starts them. It ends with its standard
input, so that it does not outlive who started it.
"""

import asyncio
import json
import os
import sys
import traceback


async def serve(order: dict[str, object]) -> None:
    """Serve until a part of it ends."""
    # Loaded here, as it reads the environment meanwhile; mypy checks with the project's own, which has none of it.
    from dynamo._core import _normalize_mocker_config  # type: ignore[import-not-found]  # noqa: PLC0415
    from dynamo.llm import (  # type: ignore[import-not-found]  # noqa: PLC0415
        EngineType,
        EntrypointArgs,
        ModelRuntimeConfig,
        make_engine,
        run_input,
    )  # fmt: skip
    from dynamo.runtime import DistributedRuntime  # type: ignore[import-not-found]  # noqa: PLC0415

    runtime = DistributedRuntime(asyncio.get_running_loop(), "mem", "tcp", event_plane="zmq", response_plane="tcp")
    config = _normalize_mocker_config({"engine": order["engine"], "dynamo": {"enable_local_indexer": False}})
    engine, limits = config["engine"], ModelRuntimeConfig()
    limits.total_kv_blocks = engine["num_gpu_blocks"]
    limits.max_num_seqs = engine["max_num_seqs"]
    limits.max_num_batched_tokens = engine["max_num_batched_tokens"]
    limits.enable_local_indexer = False
    endpoint = "dyn://loadtests.replica.generate"
    replica = EntrypointArgs(
        engine_type=EngineType.Mocker, model_path=order["folder"], model_name=order["model"], endpoint_id=endpoint,
        mocker_engine_args=config, runtime_config=limits, kv_cache_block_size=engine["block_size"],
    )  # fmt: skip
    front = EntrypointArgs(engine_type=EngineType.Dynamic, http_host=order["address"], http_port=order["port"])
    parts = [
        asyncio.ensure_future(run_input(runtime, where, await make_engine(runtime, part)))
        for where, part in ((endpoint, replica), ("http", front))
    ]
    await asyncio.wait([*parts, asyncio.ensure_future(_told_to_end())], return_when=asyncio.FIRST_COMPLETED)
    for part in parts:
        if part.done():
            part.result()


async def _told_to_end() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


def main() -> None:
    """Serve what the order says."""
    order = json.loads(sys.argv[1])
    address = order["address"]
    os.environ.update(
        DYN_COMPUTE_THREADS="0", DYN_LOG="error", DYN_SELF_HOST_METADATA="0", DYN_SYSTEM_HOST=address,
        DYN_SYSTEM_PORT=str(order["metrics_port"]), DYN_TCP_RPC_HOST=address, DYN_HTTP_RPC_HOST=address,
        DYN_TCP_RESPONSE_STREAM_HOST=address, DYN_EVENT_PLANE_HOST=address, HOME=order["folder"],
    )  # fmt: skip
    code = 1
    try:
        asyncio.run(serve(order))
        code = 0
    finally:  # its own threads do not end by themselves
        traceback.print_exception(sys.exception())
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
