"""Forms of models, versions and routes."""

import json
from typing import Any
from uuid import UUID

from django import forms

from apps.registry.models import Engine, ModelVersion, Task
from apps.routing.models import RouteTarget
from apps.routing.policies import MAX_WEIGHT, problem_of_weights

MAX_PLACE = 20
MAX_JSON_CHARACTERS = 200_000
DTYPES = ("", "auto", "bfloat16", "float16", "float32")


class ObjectField(forms.CharField):
    """A JSON object; empty is an empty one."""

    def __init__(self, *, rows: int = 3, **kwargs: Any) -> None:
        widget = forms.Textarea(attrs={"rows": rows, "spellcheck": "false", "class": "code-input"})
        super().__init__(required=False, max_length=MAX_JSON_CHARACTERS, widget=widget, **kwargs)

    def clean(self, value: Any) -> dict[str, Any]:
        text = super().clean(value)
        if not text:
            return {}
        try:
            found = json.loads(text)
        except ValueError as error:
            raise forms.ValidationError(f"This is not JSON: {error}.") from error
        if not isinstance(found, dict):
            raise forms.ValidationError("This is JSON, and no object: write {…}.")
        return found


class ModelForm(forms.Form):
    name = forms.SlugField(max_length=63, help_text="Letters, digits and dashes. It cannot be changed later.")
    task = forms.ChoiceField(choices=Task.choices, help_text="What its versions answer with: text, or vectors.")


class VersionForm(forms.Form):
    label = forms.SlugField(max_length=30, help_text="Tells it from the model's other versions.")
    engine = forms.ChoiceField(choices=Engine.choices)
    source = forms.CharField(max_length=500, help_text="A repository, s3://BUCKET/PREFIX, or a path on nodes.")
    revision = forms.CharField(max_length=100, required=False, help_text="Of a repository; a store's is read.")
    served_name = forms.CharField(max_length=200, help_text="What the engine calls it in its own API.")
    max_context_tokens = forms.IntegerField(
        label="Context, tokens", min_value=1, max_value=2**31 - 1, required=False, help_text="Empty: the model's own."
    )
    dtype = forms.ChoiceField(choices=[(each, each or "the model's own") for each in DTYPES], required=False)
    quantisation = forms.CharField(max_length=30, required=False, help_text="fp8, awq, gptq; empty for none.")
    licence = forms.CharField(max_length=100, required=False)
    tags = forms.CharField(max_length=500, required=False, help_text="Separated by commas.")
    engine_args = ObjectField(
        label="Engine arguments", help_text='As JSON, in the engine\'s own words: {"max_num_seqs": 64}.'
    )
    config = ObjectField(
        label="config.json", rows=6, help_text="The model's own. With it, its memory and speed are known beforehand."
    )
    weight_index = ObjectField(label="Weight index", help_text="model.safetensors.index.json, for its exact size.")

    def clean_tags(self) -> list[str]:
        return [tag for tag in self.cleaned_data["tags"].replace(",", " ").split() if tag]

    @property
    def short_fields(self) -> list[forms.BoundField]:
        return [field for field in self if not isinstance(field.field, ObjectField)]

    @property
    def json_fields(self) -> list[forms.BoundField]:
        return [field for field in self if isinstance(field.field, ObjectField)]

    @property
    def values(self) -> dict[str, Any]:
        """What was left empty is not said."""
        return {name: value for name, value in self.cleaned_data.items() if value not in ("", None, {}, [])}


class RouteForm(forms.Form):
    public_name = forms.CharField(max_length=100, help_text="What clients write as `model`.")
    version = forms.ModelChoiceField(
        ModelVersion.objects.select_related("model"),
        label="Answered by",
        help_text="All of it at first; other versions are added on the route's page.",
    )


class WeightsForm(forms.Form):
    """Per target of a route its weight, its place among those that stand in for others, and whether it goes.

    `newcomers` are versions that may join it.
    """

    def __init__(self, *args: Any, targets: list[RouteTarget], newcomers: list[ModelVersion], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.targets = targets
        for target in targets:
            self._add_target(target)
        self.fields["newcomer"] = forms.ChoiceField(
            choices=[("", "none"), *((str(each.pk), str(each)) for each in newcomers)],
            required=False,
            label="Add a version",
        )
        self.fields["newcomer_weight"] = forms.IntegerField(
            label="Its weight", required=False, min_value=0, max_value=MAX_WEIGHT, initial=0
        )

    def _add_target(self, target: RouteTarget) -> None:
        widget = forms.NumberInput(attrs={"data-weight": "", "aria-label": f"Weight of {target.version}"})
        self.fields[_named("weight", target)] = forms.IntegerField(
            min_value=0, max_value=MAX_WEIGHT, initial=target.weight, widget=widget
        )
        label = f"Place of {target.version} among those that stand in"
        self.fields[_named("stands_in", target)] = forms.IntegerField(
            required=False,
            min_value=1,
            max_value=MAX_PLACE,
            initial=target.alternative_rank,
            widget=forms.NumberInput(attrs={"aria-label": label, "placeholder": "–"}),
        )
        self.fields[_named("goes", target)] = forms.BooleanField(
            required=False, widget=forms.CheckboxInput(attrs={"aria-label": f"Take {target.version} off the route"})
        )

    def clean(self) -> dict[str, Any]:
        """What the domain would refuse is said before the change is reviewed."""
        cleaned: dict[str, Any] = super().clean() or {}
        if not self.errors and (problem := problem_of_weights(self.weights)):
            self.add_error(None, f"{problem[:1].upper()}{problem[1:]}.")
        return cleaned

    @property
    def weights(self) -> dict[UUID, int]:
        kept = {target.version_id: self.cleaned_data[_named("weight", target)] for target in self._staying}
        newcomer = self.cleaned_data["newcomer"]
        return kept | ({UUID(newcomer): self.cleaned_data["newcomer_weight"] or 0} if newcomer else {})

    @property
    def alternatives(self) -> list[UUID]:
        """In order; of two with one place the first comes first."""
        places = [(self.cleaned_data[_named("stands_in", target)], target.version_id) for target in self._staying]
        ranked = sorted((pair for pair in places if pair[0] is not None), key=lambda pair: pair[0])
        return [version_id for _, version_id in ranked]

    @property
    def _staying(self) -> list[RouteTarget]:
        return [target for target in self.targets if not self.cleaned_data[_named("goes", target)]]


def _named(what: str, target: RouteTarget) -> str:
    return f"{what}_{target.version_id}"
