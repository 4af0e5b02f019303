"""deploy/prometheus and deploy/grafana: they name only series and labels that /metrics has, and pages that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from broker.process.history_families import HISTORY
from broker.process.metric_families import (
    ANY_SUBSCRIPTION,
    ANY_TOPIC,
    PASSING_SUBSCRIPTION,
    STORED_SUBSCRIPTION,
    STORED_TOPIC,
    TOPICS_OF_NAMESPACE,
    SplitFamily,
)
from config.environment import PROJECT_DIR
from tests.support.memory_broker import memory_broker
from tests.unit.docs.pages import DOCS_DIR

RULES: Final[list[dict[str, Any]]] = [
    rule
    for group in yaml.safe_load((PROJECT_DIR / "deploy/prometheus/vela.rules.yml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD: Final[dict[str, Any]] = json.loads((PROJECT_DIR / "deploy/grafana/vela.json").read_text())

_SERIES = re.compile(r"\b((?:pulsar|vela|brk)_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"[^"]*"')
_DURATIONS = re.compile(r"\[[^\]]*\]|\b\d+[smhd]\b")
_LABELS_IN_PARENTHESES = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_FUNCTIONS: Final = {
    *("sum", "rate", "increase", "deriv", "absent", "topk", "histogram_quantile", "vector", "label_values"),
    *("by", "on", "or", "and", "unless", "offset"),
}
_NAMESPACE: Final = {"cluster", "namespace"}
_TOPIC: Final = _NAMESPACE | {"topic"}


@pytest.fixture
async def labels() -> dict[str, set[str]]:
    """Return the labels of every series."""
    found: dict[str, set[str]] = {TOPICS_OF_NAMESPACE.name: set(_NAMESPACE)}
    async with memory_broker() as run:
        metrics = run.broker._metrics
        for metric in run.broker.instruments.registry.collect():
            names = set(getattr(metric, "_labelnames", ()))
            if metric.type == "histogram":
                found[f"{metric.name}_bucket"] = names | {"le"}
            else:
                found[metric.name + ("_total" if metric.type == "counter" else "")] = names
        for families, own in (
            ([metrics._states], _NAMESPACE),
            ([*metrics._stored_topic, *STORED_TOPIC, *HISTORY, *ANY_TOPIC], _TOPIC),
            (
                [
                    *metrics._stored_subscription,
                    *STORED_SUBSCRIPTION,
                    *PASSING_SUBSCRIPTION,
                    *ANY_SUBSCRIPTION,
                ],
                _TOPIC | {"subscription"},
            ),
        ):
            for family in families:
                found[family.name] = own | ({family.label} if isinstance(family, SplitFamily) else set())
    return found


def queries() -> Iterator[tuple[str, str]]:
    """Return each expression with the template of its label."""
    for rule in RULES:
        yield rule["expr"], rule["annotations"]["summary"]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"], ""


def faults(expression: str, template: str, labels: dict[str, set[str]]) -> list[str]:
    """Return the names in an expression and its template that the broker does not have."""
    series = _SERIES.findall(expression)
    unknown = [name for name, _ in series if name not in labels]
    known: set[str] = set().union(*(labels.get(name, set()) for name, _ in series))
    for name, matchers in series:
        unknown += [
            f"{name}{{{label}}}"
            for label in _MATCHER.findall(matchers)
            if label not in labels.get(name, set())
        ]
    for inside in _LABELS_IN_PARENTHESES.findall(expression):
        unknown += [label for label in re.findall(r"\w+", inside) if label not in known]
    unknown += [
        label for label in re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", template) if label not in known
    ]
    rest = _LABELS_IN_PARENTHESES.sub("", _SERIES.sub("", _DURATIONS.sub("", expression)))
    words = set(re.findall(r"[A-Za-z_]\w*", rest)) - _FUNCTIONS
    return unknown + sorted(words - known if "label_values" in rest else words)


def test_rules_and_dashboard_name_only_series_and_labels_that_exist(labels: dict[str, set[str]]) -> None:
    found = {expression: faults(expression, template, labels) for expression, template in queries()}
    assert len(found) > 40
    assert {expression: names for expression, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("expression", "template", "fault"),
    [
        ("vela_subscription_stat == 1", "", "vela_subscription_stat"),
        ('vela_connections{topic="t"} > 1', "", "vela_connections{topic}"),
        ("sum by (tenant) (pulsar_rate_in)", "", "tenant"),
        ("pulsar_rate_in > 1", "{{ $labels.subscription }}", "subscription"),
        ("pulser_rate_in > 1", "", "pulser_rate_in"),
    ],
)
def test_a_wrong_name_is_found(
    expression: str, template: str, fault: str, labels: dict[str, set[str]]
) -> None:
    assert faults(expression, template, labels) == [fault]


def test_an_alert_on_a_series_that_begins_with_its_first_event_notices_that_event() -> None:
    split = {
        family.name for family in (*STORED_SUBSCRIPTION, *STORED_TOPIC) if isinstance(family, SplitFamily)
    }
    for rule in RULES:
        for name in split & {name for name, _ in _SERIES.findall(rule["expr"])}:
            if f"increase({name}" in rule["expr"]:
                assert re.search(rf"{name}\S* unless {name}\S* offset", rule["expr"]), rule["alert"]


def test_each_alert_links_to_a_page_of_the_runbook() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        _, _, name = rule["annotations"]["runbook_url"].partition("/help/runbook")
        assert (DOCS_DIR / "runbook" / f"{name.strip('/') or 'README'}.md").is_file(), rule["alert"]
        assert rule["labels"]["severity"] in {"page", "ticket"}


def test_panels_have_unique_ids_and_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
