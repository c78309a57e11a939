import json

import pytest

from workers.gateway.payload.attachments import find_attached

pytestmark = pytest.mark.unit

DATA = "QUJD" * 5000
ADDRESS = "https://pictures.example/" + "a" * 5000


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": ADDRESS}},
        {"image_url": ADDRESS},
        {"type": "video_url", "video_url": {"url": ADDRESS}},
        {"type": "audio_url", "audio_url": {"url": f"data:audio/wav;base64,{DATA}"}},
        {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
        {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}"},
        {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{DATA}"},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": DATA}},
        {"type": "image_embeds", "image_embeds": DATA},
        {"type": "image_embeds", "image_embeds": {"image_grid_thw": DATA, "x": "{"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
        {"type": "image", "source": {"type": "url", "url": ADDRESS}},
    ],
)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_it_is_found_in_every_spelling(part, separators):
    body = json.dumps([{"role": "user", "content": [{"type": "text", "text": "x_"}, part]}], separators=separators)
    found = find_attached([body.encode()])
    assert found.count == 1
    assert len(body) - found.size_bytes < 200


@pytest.mark.parametrize(
    "text",
    [
        'say "image_url": "https://a_b" again',
        '{"image_url": {"url": "data:image/png;base64,AAAA"}}',
        "data:image/png;base64,AAAA;base64,",
        '"source": {"type": "base64"}',
    ],
)
def test_what_a_text_says_is_text(text):
    assert find_attached([json.dumps([{"role": "user", "content": text}]).encode()]).count == 0


def test_a_source_of_the_clients_own_is_no_picture():
    use = {"type": "tool_use", "name": "f", "input": {"source": {"table": "a_b"}}}
    assert find_attached([json.dumps([{"role": "assistant", "content": [use]}]).encode()]).count == 0


@pytest.mark.parametrize("tail", [b'"', b'{"url":"', b'{"url":"a",', b"{{{{", b'"\\', b""])
def test_what_is_cut_off_or_odd_takes_no_time(tail):
    found = find_attached([b'"image_url": {' * 10_000 + tail + b"a" * 1_000_000])
    assert found.count == 0
