"""Calls that a type checker must refuse: one on each line with an expectation."""

import polars as pl

import resus

resus.Resus(learner="rigde")  # type: ignore[arg-type]
resus.Resus(encoder="deepmf")  # type: ignore[arg-type]
resus.Resus(protocol="papers")  # type: ignore[arg-type]
resus.Resus(lerner="ridge")  # type: ignore[call-arg]
model = resus.Resus()
model.fit(pl.DataFrame(), duplicates="frist")  # type: ignore[arg-type]
model.fit(pl.DataFrame(), duplicate="first")  # type: ignore[call-arg]
model.fit([1, 2])  # type: ignore[arg-type]
model.evaluate("log", part="tests")  # type: ignore[arg-type]
model.predict([1, 2], pl.DataFrame())  # type: ignore[call-overload]
model.predict(pl.DataFrame(), 3)  # type: ignore[call-overload]
answer: pl.LazyFrame = model.predict("support.csv", "query.csv")  # type: ignore[assignment]
resus.build_log(pl.DataFrame(), 7)  # type: ignore[arg-type]
resus.prepare("frappe", "out", protocols="paper")  # type: ignore[call-arg]
