"""The form of the policy lab."""

from typing import Any, cast

from django import forms

from workers.simulator.experiments import (
    MAX_REPLICAS,
    MAX_UPLOAD_BYTES,
    POLICIES,
    UPLOAD,
    Experiment,
    ExperimentError,
    FleetPart,
    list_engines,
    list_traces,
    parse_fleet,
)

USAGE_RECORDS = "usage"


class ExperimentForm(forms.Form):
    """What is tried in the policy lab."""

    trace = forms.ChoiceField(help_text="A recorded or public trace, or what was used on a past day.")
    day = forms.DateField(
        required=False, widget=forms.DateInput(attrs={"type": "date"}), help_text="Of the usage records, in UTC."
    )
    recording = forms.FileField(
        required=False, label="Trace of your own",
        help_text=f"CSV with t_s,in,out, or JSON lines with t_s, in, out, h; at most {MAX_UPLOAD_BYTES // 2**20} MiB.",
    )  # fmt: skip
    policies = forms.MultipleChoiceField(
        choices=[(name, name) for name in POLICIES], initial=["tokenyard", "least-outstanding"],
        widget=forms.CheckboxSelectMultiple,
    )  # fmt: skip
    replicas = forms.IntegerField(min_value=1, max_value=MAX_REPLICAS, initial=4)
    engine = forms.ChoiceField(help_text="Model, GPU and tensor parallelism; its step times were measured.")
    others = forms.CharField(
        required=False, max_length=200, label="Other replicas",
        help_text="Of the same fleet on other GPUs, as 2xllama3-8b/a100/tp1; more after a +.",
    )  # fmt: skip
    load = forms.FloatField(
        min_value=0.01, max_value=100, initial=1.0, label="Load or speed",
        help_text="W1 to W5: relative to capacity. Other traces: times as fast as recorded.",
    )  # fmt: skip
    duration_s = forms.FloatField(
        min_value=1, max_value=86_400, required=False, label="Duration",
        help_text="Empty: all of it, which of some public traces is hours.",
    )  # fmt: skip
    ttft_slo_s = forms.FloatField(min_value=0.001, max_value=3600, initial=2.0, label="TTFT limit")
    tpot_slo_ms = forms.FloatField(min_value=0.1, max_value=60_000, initial=150.0, label="TPOT limit")
    in_slo_wanted = forms.FloatField(
        min_value=0, max_value=1, initial=0.95, required=False, label="Replicas needed for",
        help_text="The share of requests within their SLO to look for; empty or 0 does not look.",
    )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own = [(USAGE_RECORDS, "Usage records of a day"), (UPLOAD, "A trace of your own")]
        traces = [*own, *((name, name) for name in list_traces())]
        cast("forms.ChoiceField", self.fields["trace"]).choices = traces
        cast("forms.ChoiceField", self.fields["engine"]).choices = [(name, name) for name in list_engines()]

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if values.get("trace") == USAGE_RECORDS and not values.get("day"):
            self.add_error("day", "Choose a day.")
        if values.get("trace") == UPLOAD and not values.get("recording"):
            self.add_error("recording", "Choose a file.")
        return values

    def clean_recording(self) -> bytes | None:
        """Read only as far as it may be large."""
        file = self.cleaned_data["recording"]
        return None if file is None else file.read(MAX_UPLOAD_BYTES + 1)

    def uploaded(self) -> bytes | None:
        values = self.cleaned_data
        recording: bytes | None = values["recording"] if values["trace"] == UPLOAD else None
        return recording

    def clean_others(self) -> tuple[FleetPart, ...]:
        text = self.cleaned_data["others"]
        try:
            return tuple(parse_fleet(text)) if text else ()
        except ExperimentError as error:
            raise forms.ValidationError(str(error)) from error

    def experiment(self) -> Experiment:
        values = self.cleaned_data
        trace = f"usage:{values['day'].isoformat()}" if values["trace"] == USAGE_RECORDS else values["trace"]
        return Experiment(
            trace=trace,
            policies=tuple(values["policies"]),
            replicas=values["replicas"],
            engine=values["engine"],
            others=values["others"],
            load=values["load"],
            speed=values["load"],
            duration_s=values["duration_s"],
            ttft_slo_s=values["ttft_slo_s"],
            tpot_slo_s=values["tpot_slo_ms"] / 1000,
            in_slo_wanted=values["in_slo_wanted"] or 0.0,
        )
