"""What a node says of its hardware: its GPUs, or where there are none its CPU."""

from types import SimpleNamespace

import pynvml
import pytest

from workers.agent.hardware.accelerators import Accelerators
from workers.agent.hardware.nvml import NVMLGPUs

pytestmark = pytest.mark.unit


def write_proc(directory, *, busy, idle):
    (directory / "stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 1 1 1\n")
    (directory / "meminfo").write_text("MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 400 kB\n")
    (directory / "cpuinfo").write_text("processor : 0\nmodel name : A Fast One\n")


class NoGPUs:
    def read(self):
        return []

    def close(self):
        pass


def test_the_cpu_is_reported_with_its_use_since_the_last_sample(tmp_path):
    write_proc(tmp_path, busy=100, idle=100)
    accelerators = Accelerators(NoGPUs(), tmp_path)
    write_proc(tmp_path, busy=130, idle=110)
    [report] = accelerators.sample()
    assert (report.kind, report.name) == ("cpu", "A Fast One")
    assert report.utilisation_ratio == pytest.approx(0.75)
    assert (report.memory_total_bytes, report.memory_used_bytes) == (1000 * 1024, 600 * 1024)


def test_use_between_two_samples_at_once_is_unknown_not_zero(tmp_path):
    write_proc(tmp_path, busy=100, idle=100)
    [report] = Accelerators(NoGPUs(), tmp_path).sample()
    assert report.utilisation_ratio is None


def test_what_memory_is_free_is_unknown_where_the_kernel_does_not_say(tmp_path):
    write_proc(tmp_path, busy=1, idle=1)
    (tmp_path / "meminfo").write_text("MemTotal: 1000 kB\n")
    [report] = Accelerators(NoGPUs(), tmp_path).sample()
    assert report.memory_used_bytes is None


def test_who_else_is_on_a_gpu_may_have_any_name(tmp_path):
    write_proc(tmp_path, busy=1, idle=1)
    (tmp_path / "7").mkdir()
    (tmp_path / "7/comm").write_bytes("тренировка".encode()[:15] + b"\n")  # the kernel keeps 15 bytes
    assert Accelerators(NoGPUs(), tmp_path)._name_of(7) == "трениро�"


def unanswered(*_):
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


def test_a_gpu_is_reported_and_what_it_does_not_say_is_unknown(monkeypatch):
    answers = {
        "nvmlInit": None,
        "nvmlDeviceGetCount": 1,
        "nvmlDeviceGetHandleByIndex": "gpu-0",
        "nvmlDeviceGetName": b"A Large One",
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=100, used=40),
        "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=75),
        "nvmlDeviceGetTemperature": 61,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, lambda *_, answer=answer: answer)
    for name in dir(pynvml):
        if name.startswith(("nvmlDevice", "nvmlSystem")) and name not in answers:
            monkeypatch.setattr(pynvml, name, unanswered)
    accelerators = Accelerators(NVMLGPUs())
    [report] = accelerators.sample()
    assert accelerators.gpu_names == ["A Large One"]
    assert (report.kind, report.memory_total_bytes, report.memory_used_bytes) == ("gpu", 100, 40)
    assert (report.utilisation_ratio, report.temperature_c, report.power_w) == (0.75, 61, None)
