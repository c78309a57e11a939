"""The plainest proxy there is in Python, to compare with: aiohttp both ways, round robin, nothing else.

Runs in an environment of its own: `python aiohttp_proxy.py PORT ENGINE_URL...`.
"""

import itertools
import sys
from collections.abc import AsyncIterator

import aiohttp
import uvloop
from aiohttp import web

ENGINES = itertools.cycle(sys.argv[2:])
CLIENT = web.AppKey("client", aiohttp.ClientSession)


async def pass_on(request: web.Request) -> web.StreamResponse:
    body, kind = await request.read(), {"content-type": request.headers.get("content-type", "")}
    async with request.app[CLIENT].post(next(ENGINES) + request.path, data=body, headers=kind) as answer:
        headers = {"content-type": answer.headers.get("content-type", "")}
        if not headers["content-type"].startswith("text/event-stream"):
            return web.Response(body=await answer.read(), status=answer.status, headers=headers)
        stream = web.StreamResponse(status=answer.status, headers=headers)
        await stream.prepare(request)
        async for piece in answer.content.iter_any():
            await stream.write(piece)
        await stream.write_eof()
        return stream


async def with_client(app: web.Application) -> AsyncIterator[None]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as client:
        app[CLIENT] = client
        yield


def main() -> None:
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v1/chat/completions", pass_on)
    app.cleanup_ctx.append(with_client)
    uvloop.install()
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None, backlog=4096)


if __name__ == "__main__":
    main()
