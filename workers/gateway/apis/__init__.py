"""Whose shapes a path speaks: what of an answer is read, and how our own errors look there.

interface.py   what the gateway asks of each        events.py      streams of named events
openai.py      chat, completions, pooling, audio    responses.py   OpenAI's Responses
anthropic.py   Anthropic's Messages
"""
