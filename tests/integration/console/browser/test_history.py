"""The charts in a real Chromium. A test fails if the browser logs an error, such as a breach of the content policy."""

from __future__ import annotations

import math
import time
from itertools import product

import pytest
from playwright.sync_api import Page, Route

from broker.models import StatsPoint10s
from console.words.numerals import in_utc, latency
from tests.integration.console.shop import Shop
from tests.integration.console.test_history import BILLING, ORDERS, an_act
from vela.wire.latency_counts import percentile_ms

pytestmark = pytest.mark.django_db(transaction=True)

DRAWN = "[data-history][data-drawn]"
# Counts the pixels of a chart that nearly have the colour of a custom property.
PIXELS = """([chart, name]) => {
    const canvas = document.querySelector(`[data-chart=${chart}] canvas`);
    const probe = document.createElement("canvas").getContext("2d");
    probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    probe.fillRect(0, 0, 1, 1);
    const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let found = 0;
    for (let at = 0; at < data.length; at += 4) {
        const distance = Math.abs(data[at] - red) + Math.abs(data[at + 1] - green) + Math.abs(data[at + 2] - blue);
        if (data[at + 3] > 200 && distance < 24) found += 1;
    }
    return found;
}"""
# Returns the first and the last pixel of the step with messages, its rate and its beginning.
STEP = """(history) => {
    const step = history.steps.find((step) => step.message_rate_in > 0);
    const { left, width } = document.querySelector("[data-chart=rates] .u-over").getBoundingClientRect();
    const pixel = (at_ms) => Math.ceil(left + (at_ms - history.from_ms) / (history.to_ms - history.from_ms) * width);
    const rate = `${step.message_rate_in.toFixed(1)}/s`;
    const at = new Date(step.at_ms).toISOString().slice(11, 19);
    return [[pixel(step.at_ms), pixel(step.at_ms + history.step_s * 1000) - 1], rate, at];
}"""


def add_points(shop: Shop, *, minutes: int, neighbours: int = 0) -> None:
    """Add a point of the topic and one of its subscription, with `neighbours` equal points before and after each."""
    at_ms = int(time.time() * 1000) // 10_000 * 10_000 - minutes * 60_000
    for subscription_id, nth in product((0, shop.billing.pk), range(-neighbours, neighbours + 1)):
        StatsPoint10s.objects.create(
            at_ms=at_ms + nth * 10_000,
            topic_id=shop.topic.pk,
            subscription_id=subscription_id,
            messages_in=None if subscription_id else 900,
            bytes_in=None if subscription_id else 9000,
            messages_out=800,
            messages_acked=700,
            messages_redelivered=300,
            backlog_before=5,
            backlog=14,
            backlog_most=14,
            stored_bytes=None if subscription_id else 5_000_000,
            # 32 to 63 ms, and 1,024 to 2,047 ms
            ack_latencies=[0] * 6 + [90] + [0] * 4 + [10] if subscription_id else None,
        )


def test_a_click_on_a_chart_opens_the_page_of_that_moment(page: Page, shop: Shop) -> None:
    add_points(shop, minutes=30)
    page.goto(BILLING)
    page.wait_for_selector(DRAWN)
    plot = page.locator("[data-chart=backlog] .u-over")
    box = plot.bounding_box()
    assert box is not None
    plot.click(position={"x": box["width"] / 2 + 5, "y": 20})
    page.wait_for_url("**/s/billing/past?at=*Z&step=10")
    assert page.inner_text("h1") == "billing"
    assert page.locator(".insight-bars .moment-mark").count() == 1


def test_a_click_with_an_unsteady_hand_opens_the_page_of_that_moment(page: Page, shop: Shop) -> None:
    add_points(shop, minutes=30)
    page.goto(BILLING)
    page.wait_for_selector(DRAWN)
    plot = page.locator("[data-chart=backlog] .u-over")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 + 3, box["y"] + 22)
    page.mouse.up()
    page.wait_for_url("**/s/billing/past?at=*Z&step=10")


@pytest.mark.parametrize("end", [0, 1], ids=["first pixel", "last pixel"])
def test_a_click_opens_the_step_that_is_drawn_there_and_that_the_legend_names(
    page: Page, end: int, shop: Shop
) -> None:
    add_points(shop, minutes=30)
    with page.expect_response("**/history?range=24h") as answered:
        page.goto(f"{BILLING}?range=24h")
    page.wait_for_selector(DRAWN)
    plot = page.locator("[data-chart=rates] .u-over")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    pixels, rate_in, at = page.evaluate(STEP, answered.value.json())
    page.mouse.move(pixels[end], box["y"] + 20)
    page.wait_for_selector(f"[data-chart=rates] .u-legend :text('{at}')")
    assert rate_in in page.inner_text("[data-chart=rates] .u-legend")
    page.mouse.down()
    page.mouse.up()
    page.wait_for_url("**/s/billing/past?at=*Z&step=600")
    assert f"In {rate_in}" in " ".join(page.inner_text(".figures").split())
    assert at in page.inner_text(".lead .age")


def test_a_click_on_the_last_pixel_opens_the_last_step(page: Page, shop: Shop) -> None:
    page.set_viewport_size({"width": 240, "height": 800})  # a pixel is more than three steps
    with page.expect_response("**/history?range=6h") as answered:
        page.goto(f"{ORDERS}?range=6h")
    last_ms = answered.value.json()["steps"][-1]["at_ms"]
    page.wait_for_selector(DRAWN)
    plot = page.locator("[data-chart=backlog] .u-over")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    page.mouse.click(math.ceil(box["x"] + box["width"]) - 1, box["y"] + 20)
    page.wait_for_url(f"**/orders/past?at={in_utc(last_ms)}&step=60")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_charts_are_drawn_in_the_colours_of_the_theme(page: Page, theme: str, shop: Shop) -> None:
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    add_points(shop, minutes=30)
    an_act(shop)
    page.goto(ORDERS)
    page.wait_for_selector(DRAWN)
    assert page.locator("[data-chart] canvas").count() == 3
    for chart, name in (
        ("backlog", "--accent"),
        ("rates", "--accent"),
        ("rates", "--flight"),
        ("rates", "--good"),
        ("rates", "--bad"),
        ("stored", "--soft"),
        ("backlog", "--warn"),  # the mark of the act
    ):
        assert page.evaluate(PIXELS, [chart, name]) > 5, (chart, name)
    page.emulate_media(color_scheme="light" if theme == "dark" else "dark")
    page.wait_for_function(f"(arguments_) => ({PIXELS})(arguments_) > 5", arg=["backlog", "--accent"])


def test_an_empty_chart_says_so_and_a_single_number_is_a_point(page: Page, shop: Shop) -> None:
    page.clock.install()
    page.goto(BILLING)
    page.wait_for_selector(DRAWN)
    assert page.locator("[data-chart=acks] .chart-empty").inner_text() == "No data in this period."
    assert page.get_attribute("[data-chart=acks]", "aria-description") == "No data in this period."
    # The page knows the current backlog even without points.
    assert page.locator("[data-chart=backlog] .chart-empty").count() == 0
    assert page.evaluate(PIXELS, ["acks", "--bad"]) == 0
    add_points(shop, minutes=30)
    page.clock.fast_forward(30_000)
    page.wait_for_function(f"(arguments_) => ({PIXELS})(arguments_) > 5", arg=["acks", "--bad"])
    assert page.locator(".chart-empty").count() == 0
    assert page.get_attribute("[data-chart=acks]", "aria-description") is None


def test_the_legend_names_each_line_with_its_number(page: Page, shop: Shop) -> None:
    # Opening the page may take so long that the time for up to three points passes.
    add_points(shop, minutes=30, neighbours=3)
    page.goto(BILLING)
    page.wait_for_selector(DRAWN)
    assert page.locator("[data-chart] canvas").count() == 3
    page.hover("[data-chart=rates] .u-over")
    legend = page.inner_text("[data-chart=rates] .u-legend").replace("\n", " ")
    for word in ("In", "Out", "Acked", "Redelivered", "0/s", "UTC"):
        assert word in legend
    # The legends of the other charts show the same moment.
    page.wait_for_selector("[data-chart=backlog] .u-legend :text('14')")
    legend = page.inner_text("[data-chart=acks] .u-legend").replace("\n", " ")
    for word in ("To ack p50", "50\u202fms", "p95", "1.5\u202fs", "p99", "1.9\u202fs"):
        assert word in legend, (word, legend)


@pytest.mark.parametrize("bucket", [13, 17, 23, 24, 29])  # from 4 s to 5 d
def test_the_legend_writes_latencies_as_the_server_does(page: Page, bucket: int, shop: Shop) -> None:
    add_points(shop, minutes=30)
    counted = [0] * bucket + [100]
    StatsPoint10s.objects.filter(subscription_id=shop.billing.pk).update(ack_latencies=counted)
    page.goto(BILLING)
    page.wait_for_selector(DRAWN)
    legend = page.inner_text("[data-chart=acks] .u-legend")
    for share in (0.5, 0.95, 0.99):
        assert latency(percentile_ms(counted, share)) in legend, legend


def test_new_numbers_come_by_themselves_and_not_while_the_page_is_paused(page: Page, shop: Shop) -> None:
    add_points(shop, minutes=30)
    page.clock.install()
    page.goto(BILLING)
    page.wait_for_selector(DRAWN)
    before = page.evaluate(PIXELS, ["rates", "--bad"])
    add_points(shop, minutes=20)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.keyboard.press("p")
    page.clock.fast_forward(30_000)
    page.evaluate("fetch('/healthz')")  # when this returns, earlier requests are in the list
    assert [url for url in asked if "/history?" in url] == []
    page.keyboard.press("p")
    with page.expect_response(lambda response: "/history?range=1h" in response.url):
        page.clock.fast_forward(30_000)
    page.wait_for_function(f"(arguments_) => ({PIXELS})(arguments_) > {before}", arg=["rates", "--bad"])


def test_a_phone_shows_charts_and_table_without_scrolling_sideways(page: Page, shop: Shop) -> None:
    add_points(shop, minutes=30)
    page.set_viewport_size({"width": 390, "height": 800})
    for address in (ORDERS, BILLING):
        page.goto(f"{address}?range=6h")
        if address == BILLING:
            page.click("label:has-text('History')")
        page.wait_for_selector(DRAWN)
        page.wait_for_function("() => document.querySelector('[data-chart] canvas').clientWidth > 200")
        page.click("text=History as a table")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, address
    page.set_viewport_size({"width": 700, "height": 800})
    page.wait_for_function("() => document.querySelector('[data-chart] canvas').clientWidth > 500")
    page.set_viewport_size({"width": 1200, "height": 800})  # the charts are side by side
    page.wait_for_function("() => document.querySelector('[data-chart] canvas').clientWidth < 500")


def test_a_page_says_that_numbers_cannot_be_read_and_reads_them_again(
    page: Page, errors: list[str], shop: Shop
) -> None:
    page.clock.install()
    page.route("**/history?range=*", lambda route: route.abort())
    page.goto(ORDERS)
    page.wait_for_selector("[data-history-note]:has-text('could not be read')")
    page.unroute("**/history?range=*")
    page.clock.fast_forward(11_000)
    page.wait_for_selector(DRAWN)
    assert "Counted until" in page.inner_text("[data-history-age]")
    errors.clear()  # Chromium logs the request that failed


def test_a_slow_answer_is_waited_for_and_not_asked_for_again(page: Page, shop: Shop) -> None:
    """If the page asked twice, the older answer could come last, and the charts would go back in time."""
    page.clock.install()
    held: list[Route] = []
    page.route("**/history?range=*", lambda route: held.append(route))
    with page.expect_request("**/history?range=*"):
        page.goto(ORDERS)
    page.clock.fast_forward(20_000)
    page.evaluate("fetch('/healthz')")  # when this returns, earlier requests are in the list
    assert len(held) == 1
    held[0].continue_()
    page.wait_for_selector(DRAWN)


def test_a_paused_page_without_numbers_tries_again_as_it_says(
    page: Page, errors: list[str], shop: Shop
) -> None:
    page.clock.install()
    page.route("**/history?range=*", lambda route: route.abort())
    page.add_init_script("localStorage.setItem('vela_refresh', 'off')")
    page.goto(ORDERS)
    page.wait_for_selector("[data-history-note]:has-text('The page tries again')")
    page.unroute("**/history?range=*")
    page.clock.fast_forward(11_000)
    page.wait_for_selector(DRAWN)
    errors.clear()  # Chromium logs the request that failed


def test_an_act_that_comes_leaves_the_table_of_the_history_open(page: Page, shop: Shop) -> None:
    add_points(shop, minutes=30)
    page.clock.install()
    page.goto(ORDERS)
    page.wait_for_selector(DRAWN)
    page.click("text=History as a table")
    an_act(shop)
    page.clock.fast_forward(30_000)
    page.wait_for_selector("#part-history_table :text('1 act in this period')")
    assert page.is_visible("#part-history_table th:has-text('Backlog')")
    assert not page.is_visible("#part-history_table .marks")


def test_the_age_of_charts_is_outside_the_status_that_screen_readers_announce(page: Page, shop: Shop) -> None:
    """Screen readers read a status out whenever its text changes, and an age changes every second."""
    add_points(shop, minutes=30)
    page.goto(ORDERS)
    page.wait_for_selector(DRAWN)
    page.wait_for_selector("[data-history] time.ago")
    assert page.locator("[data-history] [role=status]").inner_text() == ""
    assert page.locator("[data-history] [role=status] time").count() == 0
