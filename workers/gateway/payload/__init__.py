"""What stands in the bodies and labels of requests: read as vLLM reads it, changed in as few bytes as can be.

bodies.py      JSON bodies: what is read and set     forms.py       the same of multipart forms
peeks.py       the few fields that routing needs     labels.py      what headers say of a request
body_limits.py what a body may not be                attachments.py what of a prompt is no text
"""
