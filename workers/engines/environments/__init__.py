"""Environments of engines: made once in the user's cache, used by every clone, never half made.

recipes.py  what an environment consists of      locate.py   where it is, and whether it is whole
install.py  makes one                            convert_gguf.py  runs inside: GGUF → Hugging Face directory
"""
