"""The report in a browser, used as a person would: `make test-browser`.

Debian's Chromium runs without a window. Every test ends with the browser's log: no script error,
nothing asked of a network. Screenshots go to build/browser, to be looked at.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT

import tidelog
from tidelog.cli import cli

PICTURES = ROOT / "build" / "browser"
# Markup and scripts in every disguise: each would announce itself if it were more than text.
HOSTILE = (
    "<script>window.broken = 1</script>",
    "</script><script>window.broken = 2</script>",
    "<img src=x onerror='window.broken = 3'>",
    '" onmouseover="window.broken = 4',
    "&lt;b&gt; &amp; <b>bold</b>",
    "<!-- <script>",
    "]]> \u2028 \u2029 ${window.broken = 5} `x`",
    "javascript:window.broken=6",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert chromium, "no chromium: install Debian's packages chromium and chromium-driver"
    assert driver, "no chromedriver: install Debian's package chromium-driver"
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    running = webdriver.Chrome(options=options, service=Service(driver))
    yield running
    running.quit()


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Make a report and open it; afterwards nothing may have gone wrong in it."""

    def opened(*args: str | Path) -> Any:
        page = tmp_path / "report.html"
        cli.main(["report", *map(str, args), "--out", str(page)], standalone_mode=False)
        browser.get(page.as_uri())
        return browser

    for kind in ("browser", "performance"):
        browser.get_log(kind)
    yield opened
    assert browser.get_log("browser") == []
    asked = [entry for entry in browser.get_log("performance") if '"http' in entry["message"]]
    assert not [e for e in asked if "Network.requestWillBeSent" in e["message"]]


def picture(browser: Any, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    browser.save_screenshot(str(PICTURES / f"{name}.png"))


def by_id(browser: Any, name: str) -> Any:
    return browser.find_element("id", name)


def settle(browser: Any) -> None:
    """Wait until what was asked for is drawn."""
    browser.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
    )


def slide(browser: Any, element: Any, value: int) -> None:
    browser.execute_script(
        "arguments[0].value = arguments[1];"
        "arguments[0].dispatchEvent(new Event('input', {bubbles: true}))",
        element,
        value,
    )
    settle(browser)


def press(browser: Any, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    for key in keys:
        ActionChains(browser).send_keys(key).perform()
    settle(browser)


def click(browser: Any, row: int, share: float) -> None:
    """A click on a row of the lanes, at a share of the time shown."""
    from selenium.webdriver.common.action_chains import ActionChains

    canvas = by_id(browser, "canvas")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    size = canvas.size
    x = 210 + (size["width"] - 210) * share - size["width"] / 2
    y = 26 + 20 * row + 10 - size["height"] / 2
    ActionChains(browser).move_to_element_with_offset(canvas, int(x), int(y)).click().perform()
    settle(browser)


def colours(browser: Any) -> set[tuple[int, ...]]:
    """The colours on the canvas."""
    data = browser.execute_script(
        "const c = document.getElementById('canvas'), d = c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data, s = new Set();"
        "for (let i = 0; i < d.length; i += 4) s.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);"
        "return [...s]"
    )
    return {(c >> 16, c >> 8 & 255, c & 255) for c in data}


TURBINES = (ROOT / "examples/turbines/rules.tdl", "--facts", ROOT / "examples/turbines/facts")


def test_the_slider_moves_what_is_final(show: Callable[..., Any]) -> None:
    page = show(*TURBINES)
    status = by_id(page, "status")
    assert "everything up to 11 has arrived" in status.text
    assert "Malfunc final up to 9" in status.text
    picture(page, "turbines")
    slide(page, by_id(page, "tin"), 3)
    assert "Malfunc final up to 1" in status.text
    assert "AtRisk final up to 3" in status.text
    pending = by_id(page, "pending").text
    assert "Malfunc(north) @ 2 waits for Temp(north, high) @ 4" in pending
    assert "Malfunc(north) @ 3 waits for Temp(north, high) @ 4 and Temp(north, high) @ 5" in pending
    picture(page, "turbines-tin-3")
    by_id(page, "tin").send_keys("\ue012")  # arrow left
    settle(page)
    assert "everything up to 2 has arrived" in status.text
    assert by_id(page, "number").get_property("value") == "2"


def test_a_click_on_an_answer_shows_its_proof(show: Callable[..., Any]) -> None:
    page = show(*TURBINES)
    by_id(page, "filter").send_keys("malfunc north")
    settle(page)
    click(page, 1, 1.5 / 12)  # below the predicate's own row; at tick 1
    proof = by_id(page, "proof").text
    for line in ("Malfunc(north) @ 1", "Shdn(north) @ 3", "Temp(north, high) @ 2", "rules.tdl:9"):
        assert line in proof
    assert "tidelog why" in proof
    picture(page, "turbines-proof")
    click(page, 1, 8.5 / 12)
    assert "Malfunc(north) does not hold at 8" in by_id(page, "proof").text


def test_filter_and_zoom(show: Callable[..., Any]) -> None:
    page = show(*TURBINES)
    spacer = "return document.getElementById('spacer').getBoundingClientRect().height"
    by_id(page, "filter").send_keys("no such thing")
    settle(page)
    assert page.execute_script(spacer) == 0
    by_id(page, "filter").clear()
    by_id(page, "filter").send_keys("atrisk")
    for name in ("in", "in", "out", "all"):
        by_id(page, name).click()
        settle(page)
    click(page, 1, 10.5 / 12)
    assert "AtRisk(east) @ 10" in by_id(page, "proof").text


def test_the_keyboard_is_enough(show: Callable[..., Any]) -> None:
    page = show(*TURBINES)
    by_id(page, "filter").send_keys("malfunc")
    canvas = by_id(page, "canvas")
    for _ in range(20):
        press(page, "\ue004")  # tab
        if page.switch_to.active_element == canvas:
            break
    assert page.switch_to.active_element == canvas
    press(page, "\ue014", "\ue015", "\ue012", "+", "-", "\ue011", *["\ue014"] * 1, "\ue007")
    assert "Malfunc(north) @ 1" in by_id(page, "proof").text
    assert canvas.get_attribute("aria-label") == "Malfunc(north) at 1 holds, final"
    picture(page, "turbines-keyboard")


def test_light_and_dark(show: Callable[..., Any]) -> None:
    page = show(*TURBINES)
    paper = "return getComputedStyle(document.body).backgroundColor"
    light = page.execute_script(paper)
    by_id(page, "theme").click()
    settle(page)
    dark = page.execute_script(paper)
    assert light != dark
    assert (20, 24, 29) in colours(page)
    picture(page, "turbines-dark")
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    page.refresh()
    assert page.execute_script(paper) == dark, "as the system has it"
    by_id(page, "theme").click()
    assert page.execute_script(paper) == light
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_witness_is_replayed(show: Callable[..., Any]) -> None:
    page = show(ROOT / "examples/turbines/rules.tdl", "--query", "Malfunc")
    assert not page.find_elements("id", "canvas"), "without facts there are no lanes"
    replay = page.find_element("css selector", ".replay")
    slider, said = (replay.find_element("css selector", name) for name in ("input", "output"))
    assert said.text == "+2: the answer is final"
    slide(page, slider, 1)
    assert said.text == "+1: not final yet"
    assert len(page.find_elements("css selector", "svg .given.later")) == 2
    page.execute_script("arguments[0].scrollIntoView()", replay)
    picture(page, "witness")


# Text stays text


def hostile(folder: Path) -> tuple[Path, Path]:
    """Rules and facts whose every value is markup."""
    rules, facts = folder / "<b>rules.tdl", folder / "facts.jsonl"
    quoted = [tidelog.language.printer.print_value(value) for value in HOSTILE]
    lines = ["% <script>window.broken = 7</script> </ol><h1>no</h1>"]
    lines += ["input E(a: text) @ time.", "output P."]
    lines += [f"P(X) @ T :- E(X) @ T, X != {value}, E({value}) @ T." for value in quoted]
    rules.write_text("\n".join(lines) + "\n", "utf-8")
    import json

    rows = [
        {"predicate": "E", "a": value, "time": time}
        for value, time in itertools.product(HOSTILE, range(4))
    ]
    facts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rules, facts


def test_markup_in_values_and_rules_is_text(show: Callable[..., Any], tmp_path: Path) -> None:
    rules, facts = hostile(tmp_path)
    page = show(rules, "--facts", facts)
    for row in (1, 2, 3, 10, 11, 12):
        click(page, row, 0.3)
    text = page.execute_script("return document.body.textContent")
    assert "<script>window.broken = 7</script> </ol><h1>no</h1>" in text
    seen = by_id(page, "proof").text
    assert "window.broken" in seen
    assert page.execute_script("return window.broken") is None
    assert len(page.find_elements("tag name", "h1")) == 1
    assert not page.find_elements("css selector", "img, b, iframe, object")
    assert len(page.find_elements("tag name", "script")) == 2
    picture(page, "hostile")


def test_markup_in_a_notebook_is_text(browser: Any, tmp_path: Path) -> None:
    rules, facts = hostile(tmp_path)
    program = tidelog.load(rules)
    stream = tidelog.Stream(program, ["P"])
    step = stream.push(0, {"E": [(value,) for value in HOSTILE]})
    why = program.why("P(a) @ 0", facts)
    parts = [thing._repr_html_() for thing in (program, tidelog.analyze(program, "P"), step, why)]
    page = tmp_path / "notebook.html"
    page.write_text(f"<meta charset=utf-8>{'<hr>'.join(parts)}", "utf-8")
    browser.get_log("browser")
    browser.get(page.as_uri())
    assert browser.execute_script("return window.broken") is None
    assert not browser.find_elements("css selector", "img, b, script, iframe")
    text = browser.execute_script("return document.body.textContent")
    assert "<script>window.broken = 1</script>" in text
    assert browser.get_log("browser") == []
    picture(browser, "notebook")


# Much to look at


def test_a_year_of_four_turbines_stays_responsive(
    show: Callable[..., Any], shared_data: Path
) -> None:
    folder = shared_data / "la_haute_borne"
    page = show(folder / "rules.tdl", "--facts", folder / "facts")
    assert "52569" in by_id(page, "status").text
    picture(page, "la-haute-borne")
    slowest = responsive(page)
    assert slowest < 200, f"a frame took {slowest:.0f} ms"
    by_id(page, "all").click()
    by_id(page, "filter").send_keys("icewatch R80711")
    settle(page)
    click(page, 1, (48112 - 10) / 52560)
    assert "IceWatch" in by_id(page, "proof").text
    assert "rules.tdl:" in by_id(page, "proof").text
    picture(page, "la-haute-borne-proof")


def test_hundreds_of_objects_and_thousands_of_ticks(
    show: Callable[..., Any], tmp_path: Path
) -> None:
    rules = tmp_path / "rules.tdl"
    rules.write_text("input E(a: int) @ time.\nP(X) @ T :- E(X) @ T, E(X) @ T+1.\n")
    facts = tmp_path / "E.csv"
    rows = (f"{a},{t}" for a in range(400) for t in range(4000) if (a * 7 + t * t) % 11 < 4)
    facts.write_text("a,time\n" + "\n".join(rows) + "\n")
    page = show(rules, "--facts", facts)
    picture(page, "hundreds")
    slowest = responsive(page)
    assert slowest < 300, f"a frame took {slowest:.0f} ms"


def responsive(page: Any) -> float:
    """The longest that a paint takes, in milliseconds, while everything is moved."""
    longest: float = page.execute_async_script(
        """
        const done = arguments[0], tin = document.getElementById('tin');
        const box = document.getElementById('scroll'), buttons = ['in', 'in', 'in', 'out', 'all'];
        let n = 0, longest = 0;
        const step = () => {
          const start = performance.now();
          tin.value = +tin.min + (tin.max - tin.min) * (n % 20) / 20;
          tin.dispatchEvent(new Event('input'));
          box.scrollTop = n * 37;
          if (n % 5 === 0) document.getElementById(buttons[(n / 5) % 5]).click();
          requestAnimationFrame(() => {
            longest = Math.max(longest, performance.now() - start);
            if (++n < 60) requestAnimationFrame(step); else done(longest);
          });
        };
        step();
        """
    )
    return longest
