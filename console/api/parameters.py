"""Parameters and checks that operations share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from broker.acts.kinds.parameters import STORABLE_TEXT, is_storable_text
from broker.environment import Between
from console.queries.topics.list import PAGE_ROWS

__all__ = ["Page", "SearchText", "StorableText", "TopicPath"]

MOST_ROWS = 500


def _comparable(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "it contains a NUL")
    return text.strip()


def _storable(value: object) -> object:
    text = "" if value is None else value
    if not is_storable_text(text):
        raise PydanticCustomError("not_storable", f"it takes {STORABLE_TEXT}")
    return text


SearchText = Annotated[str, AfterValidator(_comparable)]
"""Text without a NUL. Leading and trailing whitespace is removed."""

StorableText = Annotated[str, BeforeValidator(_storable)]
"""Text that PostgreSQL can store. A JSON null becomes the empty string."""


class TopicPath(BaseModel):
    """The parts of a topic's name in a URL path."""

    domain: Literal["persistent", "non-persistent"]
    tenant: str
    namespace: str
    local_name: str

    @property
    def full_name(self) -> str:
        """The topic's full name."""
        return f"{self.domain}://{self.tenant}/{self.namespace}/{self.local_name}"


class Page(BaseModel):
    """The part of a list to return."""

    limit: Annotated[int, Between(1, MOST_ROWS), Field(description="rows of a page")] = PAGE_ROWS
    after: Annotated[str, Field(description="the next_after of the previous page")] = ""
