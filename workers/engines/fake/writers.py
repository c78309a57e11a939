"""Who writes the answer to a call, in the words of the API that it came by."""

from workers.engines.fake.calls import GenerationCall
from workers.engines.fake.chunks import ChunkWriter
from workers.engines.fake.generation import AnswerWriter
from workers.engines.fake.named_events import MessagesWriter, ResponsesWriter


def open_writer(call: GenerationCall, request_id: str, model: str, now: int) -> AnswerWriter:
    """`now` in Unix seconds, as answers show it."""
    if call.api == "responses":
        return ResponsesWriter({"id": f"resp_{request_id}", "created": now, "model": model}, call)
    prefix, kind = ("chatcmpl", "chat.completion") if call.is_chat else ("cmpl", "text_completion")
    if call.is_chat and call.is_stream:
        kind += ".chunk"
    head = {"id": f"{prefix}-{request_id}", "object": kind, "created": now, "model": model}
    return MessagesWriter(head, call) if call.api == "messages" else ChunkWriter(head, call)
