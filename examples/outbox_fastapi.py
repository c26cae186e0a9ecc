"""A shop on FastAPI and SQLAlchemy: an order and its message are committed together, or neither is.

pip install 'jdbcstore[postgresql]' fastapi uvicorn
jdbcstore broker --url postgresql://user:secret@db/shop        # in another terminal
SHOP_URL=postgresql://user:secret@db/shop uvicorn examples.outbox_fastapi:app
curl -X POST localhost:8000/orders -H 'content-type: application/json' -d '{"item": "apples", "amount": 3}'
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import jdbcstore

engine = create_engine(os.environ.get("SHOP_URL", "sqlite:///shop.db"))


class Base(DeclarativeBase):
    """The shop's own tables, in the database of the broker."""


class Order(Base):
    __tablename__ = "shop_orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    amount: Mapped[int]


class NewOrder(BaseModel):
    item: str
    amount: int


@asynccontextmanager
async def lifespan(_: FastAPI):  # type: ignore[no-untyped-def]  # FastAPI's own form
    Base.metadata.create_all(engine)
    yield
    engine.dispose()


def session() -> Iterator[Session]:
    """One transaction for one request: committed if that succeeds."""
    with Session(engine) as session, session.begin():
        yield session


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
def order(new: NewOrder, session: Annotated[Session, Depends(session, scope="function")]) -> dict[str, int]:
    made = Order(item=new.item, amount=new.amount)
    session.add(made)
    session.flush()
    jdbcstore.enlist(session).send("ORDERS", {"id": made.id, "item": made.item, "amount": made.amount})
    if new.amount < 1:  # too late for the row and for the message: both are rolled back
        raise HTTPException(422, "order at least one")
    return {"id": made.id}
