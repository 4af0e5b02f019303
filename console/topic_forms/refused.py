"""Find the form in which an operator can correct an act that the broker refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from console.addresses import act_form_url, topic_act_url
from console.forms import ActForm, act_forms
from console.queries.subscription import partitioned_head, subscription_head
from console.queries.topics.topic import topic_head
from console.topic_forms.offers import topic_forms
from console.words.acts import error_text

if TYPE_CHECKING:
    from broker.acts.requests import ActView

__all__ = ["form_address", "refusal_in_form"]

_SWITCH: Final = re.compile(r"\bset (\w+) to true\b")
_HOW_FAR: Final = ("shift", "back_time")  # Values of the `to` parameter that the rewind form offers


def form_address(act: ActView) -> str:
    """Return the address of the form for a refused act, or "" if no form fits."""
    name, form = _form_of(act)
    if form is None or not _is_for(form, act):
        return ""
    return (
        act_form_url(act.topic, act.subscription, name)
        if act.subscription
        else topic_act_url(act.topic, name)
    )


def refusal_in_form(act: ActView) -> str:
    """Return the act's error in the words of the form.

    It names the form's fields instead of parameters, and the message id as an operator types it.
    """
    fields = {} if (form := _form_of(act)[1]) is None else form.base_fields
    return _SWITCH.sub(
        lambda found: f"choose “{fields[found[1]].label}”" if found[1] in fields else found[0],
        error_text(act.error, act.parameters),
    )


def _is_for(form: type[ActForm], act: ActView) -> bool:
    if not act.subscription:
        return topic_head(act.topic) is not None
    named = (act.topic, act.subscription)
    if subscription_head(*named) is not None:
        return True
    return partitioned_head(*named) is not None and not form.is_on_one_partition()


def _form_of(act: ActView) -> tuple[str, type[ActForm] | None]:
    forms = act_forms if act.subscription else topic_forms
    fitting = {name: form for name, form in forms.items() if form.kind == act.kind}
    if act.kind == "reset" and act.parameters.get("to") not in _HOW_FAR:
        fitting.pop("rewind", None)
    return next(iter(fitting.items()), ("", None))
