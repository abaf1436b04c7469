"""The code that the page of the client shows runs against a real service."""

import re
from pathlib import Path

import pytest
from service_process import Serving

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
CODE = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.integration
@pytest.mark.parametrize("code", CODE, ids=range(len(CODE)))
def test_the_code_runs(code: str, service: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESUS_TOKEN", service.client.headers["authorization"].removeprefix("Bearer "))
    address = f"http://127.0.0.1:{service.port}"
    assert "http://127.0.0.1:8000" in code
    exec(compile(code.replace("http://127.0.0.1:8000", address), "docs/client.md", "exec"), {})
    service.client.delete("/v1/users/ada").raise_for_status()
