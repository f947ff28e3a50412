"""A real headless Chromium, and the accessibility checker in it."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

_AXE: Final = Path(__file__).parent / "axe" / "axe.min.js"
_SERIOUS: Final = {"serious", "critical"}
_FLAGS: Final = (
    *("--no-sandbox", "--headless=new", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--disable-dev-shm-usage", "--lang=en-GB"),
)


class Browser:
    """One window."""

    def __init__(self, driver: Any) -> None:  # noqa: ANN401 selenium is optional
        self._driver = driver

    def look(self, width: int, height: int, scheme: str) -> None:
        """Be a screen of this size whose user likes `light` or `dark`."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def open(self, url: str) -> None:
        self._driver.get(url)

    def forget(self) -> None:
        """Keep no file of any page."""
        self._driver.execute_cdp_cmd("Network.clearBrowserCache", {})

    def back(self) -> None:
        self._driver.back()

    @property
    def url(self) -> str:
        return str(self._driver.current_url)

    def run(self, script: str, *arguments: object) -> Any:  # noqa: ANN401
        """The value that the body of a function returns; it may be a promise."""
        whole = f"return (async (...given) => {{ {script} }})(...arguments)"
        return self._driver.execute_script(whole, *arguments)

    def text(self, selector: str) -> str:
        """What is shown there; "" where nothing is."""
        return str(self.run("return document.querySelector(given[0])?.innerText ?? ''", selector))

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(given[0])].map((one) => one.innerText)"
        return list(self.run(script, selector))

    def click(self, selector: str) -> None:
        self._driver.find_element("css selector", selector).click()

    def drag(self, selector: str, pixels: int, *, right: int = 0) -> None:
        """Press in the middle of it, or so far to the right, and move to the right."""
        chains = pytest.importorskip("selenium.webdriver").ActionChains(self._driver)
        place = self._driver.find_element("css selector", selector)
        self.run("document.querySelector(given[0]).scrollIntoView({block: 'center'})", selector)
        chains.move_to_element_with_offset(place, right, 0).click_and_hold().move_by_offset(
            pixels, 0
        ).release().perform()

    def type(self, selector: str, keys: str) -> None:
        self._driver.find_element("css selector", selector).send_keys(keys)

    def press(self, keys: str) -> None:
        """On whatever has the focus."""
        self._driver.switch_to.active_element.send_keys(keys)

    def picture(self, path: Path) -> bytes:
        self._driver.save_screenshot(str(path))
        return path.read_bytes()

    def errors(self) -> list[str]:
        """What the console says is wrong, since the last question."""
        return [entry["message"] for entry in self._driver.get_log("browser")]

    def barriers(self) -> list[str]:
        """Serious findings of the accessibility checker on what is shown."""
        evaluated = {"expression": _AXE.read_text(encoding="utf-8")}
        self._driver.execute_cdp_cmd("Runtime.evaluate", evaluated)  # past the page's own policy
        found = self.run("return (await axe.run()).violations")
        return [
            f"{barrier['id']}: {json.dumps([node['html'][:200] for node in barrier['nodes'][:3]])}"
            for barrier in found
            if barrier["impact"] in _SERIOUS
        ]


@contextmanager
def browsing() -> Iterator[Browser]:
    """A new window with a profile of its own; skips the test where there is no browser."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium, chromedriver = _found("chromium"), _found("chromedriver")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options, webdriver.ChromeService(chromedriver))
        driver.set_script_timeout(60)
        try:
            yield Browser(driver)
        finally:
            driver.quit()


def _found(name: str) -> str:
    path = os.environ.get(name.upper()) or shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed (Debian: chromium, chromium-driver)")
    return path
