"""Runs llama.cpp's HTTP server in the foreground. Run by the Python of llama.cpp's own environment, by path.

The chat template is the one in the model file: SmolLM2's is ChatML with a default system prompt, and rendered by it a
chat has the same prompt tokens as in vLLM. So no template is given here, only the renderer (`use_jinja`) switched on.
"""

import argparse
import os
import signal

import xllamacpp

_LOG_ERRORS = 1
# Prompts of slots that were taken over are kept in memory up to here; the library's default is 8 GiB.
_PROMPT_CACHE_MIB = 256


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="GGUF file")
    parser.add_argument("--alias", required=True, help="model name in answers")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--slots", type=int, default=4, help="requests at once")
    parser.add_argument("--context-tokens", type=int, default=2048, help="of one request")
    parser.add_argument("--threads", type=int, default=-1)
    parser.add_argument("--temperature", type=float, help="when a request names none; else the library's default")
    parser.add_argument("--top-p", type=float, help="likewise")
    parser.add_argument("--embed", action="store_true", help="serve embeddings: mean over all tokens")
    return parser.parse_args()


def build_parameters(arguments: argparse.Namespace) -> "xllamacpp.CommonParams":
    parameters = xllamacpp.CommonParams()
    parameters.model.path = arguments.model
    parameters.model_alias = {arguments.alias}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = arguments.port
    parameters.n_parallel = arguments.slots
    parameters.n_ctx = arguments.slots * arguments.context_tokens
    parameters.cpuparams.n_threads = arguments.threads
    parameters.use_jinja = True
    parameters.endpoint_metrics = True
    parameters.ui = False
    parameters.cache_ram_mib = _PROMPT_CACHE_MIB
    parameters.verbosity = _LOG_ERRORS
    if arguments.temperature is not None:
        parameters.sampling.temp = arguments.temperature
    if arguments.top_p is not None:
        parameters.sampling.top_p = arguments.top_p
    if arguments.embed:
        parameters.embedding = True
        parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    return parameters


def main() -> None:
    stopping = {signal.SIGTERM, signal.SIGINT}
    # Blocked before the server starts its threads, so that they inherit it and the signal is ours to wait for.
    signal.pthread_sigmask(signal.SIG_BLOCK, stopping)
    server = xllamacpp.Server(build_parameters(parse_arguments()))
    print(f"serving on {server.listening_address}", flush=True)  # noqa: T201 the engine's log is its output
    signal.sigwait(stopping)
    # The library's own shutdown waits for open streams without a limit.
    os._exit(0)


if __name__ == "__main__":
    main()
